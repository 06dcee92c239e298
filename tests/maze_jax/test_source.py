"""The env source `jax`: ids, what is missing, gymnax's transitions, and runs that go on exactly."""

import subprocess
import sys

import numpy as np
import pytest
from maze_jax import names
from maze_jax.source import JaxConfig, JaxSource, simulator_of

from maze_core.base.errors import ConfigError
from tests.maze_jax.simulators import needs_gymnax, needs_jax


def config(env_id="gymnax:CartPole-v1", **parameters):
    return JaxConfig(name="jax", id=env_id, **parameters)


def test_ids_are_known_without_importing_jax():
    program = (
        "import sys; from maze_jax.source import JaxSource as A; from maze_jax.games import JaxGamesSource as B;"
        "ids = A.environments() + B.environments(); assert 'gymnax:CartPole-v1' in ids and 'pgx:chess' in ids;"
        "assert all(A.knows(each) != B.knows(each) for each in ids) and not A.knows('CartPole-v1');"
        "assert not {'jax', 'gymnax', 'pgx'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("env_id", "told"),
    [
        ("gym:CartPole-v1", "does not begin with a library: gymnax:, brax:"),
        ("pgx:chess", "--env-source jax_games"),
    ],
)
def test_other_ids_are_refused(env_id, told):
    with pytest.raises(ConfigError, match=told):
        simulator_of(config(env_id))


@needs_jax
def test_a_missing_library_is_named_with_what_installs_it(monkeypatch):
    for module in ("brax", "brax.envs"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=r'pip install "maze-jax\[brax\]"'):
        simulator_of(config("brax:ant"))


@needs_jax
def test_double_precision_and_a_missing_device_are_refused(monkeypatch):
    import jax

    jax.config.update("jax_enable_x64", True)
    try:
        with pytest.raises(ConfigError, match="double precision"):
            simulator_of(config())
    finally:
        jax.config.update("jax_enable_x64", False)

    def none():
        raise RuntimeError("no device of platform tpu")

    monkeypatch.setattr(jax, "devices", none)
    with pytest.raises(ConfigError, match=r"JAX has no device.*tpu"):
        simulator_of(config())


@needs_gymnax
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"env_id": "gymnax:CartPole-v0"}, "did you mean|Did you mean gymnax:CartPole-v1"),
        ({"params": {"gravitas": 1.0}}, r"env.params.gravitas: .*gravity"),
        ({"kwargs": {"size": 3}}, "env.kwargs: gymnax does not build"),
    ],
)
def test_what_gymnax_does_not_have_is_refused(given, told):
    with pytest.raises(ConfigError, match=told):
        simulator_of(config(**given))


@needs_gymnax
def test_gymnaxs_ids_are_all_listed():
    import gymnax

    assert names.IDS["gymnax"] == list(gymnax.registered_envs)


@needs_gymnax
def test_cart_pole_falls_or_is_cut_as_gymnasium_says():
    """Who falls has terminated, whoever stands at the limit is truncated: beside the rules of gymnasium's CartPole."""
    own = config(params={"max_steps_in_episode": 25})
    env = JaxSource(own).make_vector_env(own, 64, 0, "training")
    observation, _ = env.reset(seed=0)
    length, rng, fell, cut = np.zeros(64, int), np.random.default_rng(0), 0, 0
    for _ in range(80):
        observation, reward, terminated, truncated, info = env.step(rng.integers(0, 2, 64))
        length += 1
        last = info.get("final_obs", observation)
        outside = (abs(last[:, 0]) > 2.4) | (abs(last[:, 2]) > 12 * 2 * np.pi / 360)
        assert np.array_equal(terminated, outside)
        assert np.array_equal(truncated, ~outside & (length == 25))
        assert (reward == 1).all()
        length[terminated | truncated] = 0
        fell, cut = fell + terminated.sum(), cut + truncated.sum()
    assert min(fell, cut) > 0


@needs_gymnax
@pytest.mark.slow
def test_a_resumed_run_goes_on_exactly(quick, whole_state, assert_same):
    values = {"algorithm.n_epochs": 3, "algorithm.n_optimization_epochs": 1, "env.max_episode_steps": 30}
    whole, half, rest = (quick("gymnax:CartPole-v1", "ppo", values) for _ in range(3))
    whole.train()
    half.train(1)
    half.close()
    rest.resume(half.run_dir)
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


@needs_gymnax
def test_evaluations_are_those_of_single_environments(quick):
    """The episodes of an evaluation have the same returns however many of them are stepped together."""
    returns = []
    for count in (1, 4):
        values = {"evaluation.n_episodes": 4, "evaluation.num_envs": count}
        context = quick("gymnax:CartPole-v1", "ppo", values)
        returns.append({key: value for key, value in context.evaluate().items() if "seconds" not in key})
    assert returns[0]["eval/return_mean"] > 0
    assert returns[0] == returns[1]
