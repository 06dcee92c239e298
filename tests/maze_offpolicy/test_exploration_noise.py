"""Noise whose steps are alike: its statistics, its state, and what runs make of it."""

import numpy as np
import pytest
import torch
from maze_offpolicy import Coloured, OrnsteinUhlenbeck, White
from maze_offpolicy.collect.noise_processes import coloured

from maze_core.base.errors import ConfigError

PENDULUM = "Pendulum-v1"
SMALL = {
    "algorithm.initial_buffer_size": 30,
    "algorithm.batch_size": 8,
    "algorithm.critic_hidden": [8],
    "algorithm.epoch_length": 12,
    "algorithm.num_envs": 2,
    "algorithm.n_epochs": 3,
    "evaluation.n_episodes": 1,
    "evaluation.num_envs": 1,
    "model.hidden": [8],
}
PROCESSES = {
    "gaussian": White,
    "ornstein_uhlenbeck": lambda rng: OrnsteinUhlenbeck(rng, 0.15),
    "coloured": lambda rng: Coloured(rng, 1.0, 7),
}


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("steps", [64, 65])
def test_the_spectrum_falls_with_the_power_of_the_frequency(beta, steps):
    noise = coloured(np.random.default_rng(0), beta, steps, (4_000,))
    assert noise.shape == (steps, 4_000)
    np.testing.assert_allclose(noise.var(1), 1.0, rtol=0.12)
    power = (np.abs(np.fft.rfft(noise, axis=0)) ** 2).mean(1)[1:-1]
    slope = np.polyfit(np.log(np.fft.rfftfreq(steps)[1:-1]), np.log(power), 1)[0]
    assert slope == pytest.approx(-beta, abs=0.05)


def test_white_noise_is_white():
    noise = coloured(np.random.default_rng(0), 0.0, 10, (20_000,))
    np.testing.assert_allclose(np.cov(noise), np.eye(10), atol=0.05)


def test_the_walk_is_drawn_back():
    process = OrnsteinUhlenbeck(np.random.default_rng(0), 0.15)
    found = np.stack([process.next(5_000, 1)[:, 0] for _ in range(12)])
    np.testing.assert_allclose(found.var(1), 1.0, rtol=0.1)
    covariances = [(found[0] * found[lag]).mean() for lag in range(12)]
    np.testing.assert_allclose(covariances, 0.85 ** np.arange(12), atol=0.06)


@pytest.mark.parametrize("kind", PROCESSES)
@pytest.mark.parametrize("taken", [0, 3, 7, 9])
def test_a_process_goes_on_as_if_it_had_not_been_saved(kind, taken):
    whole, other = (PROCESSES[kind](np.random.default_rng(seed)) for seed in (1, 2))
    for _ in range(taken):
        whole.next(3, 2)
    state = whole.state()
    other.load_state({name: getattr(value, "value", value) for name, value in state.items()})
    for _ in range(10):
        np.testing.assert_array_equal(whole.next(3, 2), other.next(3, 2))


def tensors(context):
    networks = {"policy": context.policy, **context.run.modules}
    return {f"{at}.{name}": leaf for at, each in networks.items() for name, leaf in each.state_dict().items()}


def same(one, other):
    return all(torch.equal(leaf, tensors(other)[name]) for name, leaf in tensors(one).items())


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        ("td3", "coloured"),
        ("sac", "ornstein_uhlenbeck"),
        *(pytest.param(each, "repeated", marks=pytest.mark.slow) for each in ("td3", "sac")),
    ],
)
def test_runs_explore_alike_on_workers_and_after_a_resume(quick, algorithm, kind, whole_state, assert_same):
    values = {**SMALL, "algorithm.exploration": kind, "algorithm.noise_steps": 7}
    if algorithm == "sac":
        values["algorithm.n_rollout_steps"] = 2
    whole, half, rest, local = (
        quick(PENDULUM, algorithm, {**values, "runner.name": runner}) for runner in ("dev", "dev", "dev", "local")
    )
    plain = quick(PENDULUM, algorithm, {**values, "algorithm.exploration": "gaussian"})
    for context in (whole, local, plain):
        context.train()
    assert same(whole, local)
    assert not same(whole, plain)
    half.train(1)
    half.close()
    rest.resume(half.run_dir)
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


OWN = """
import numpy as np

from maze_core.collect.agents.agent import Choice
from maze_core.collect.agents.agent import Exploration


class Push(Exploration):
    def __init__(self, run, std):
        self._run, self._std = run, std

    def explore(self, obs, choice):
        bound = self._run.action_space.high
        actions = {key: np.clip(leaf + self._std() * bound, -bound, bound) for key, leaf in choice.actions.items()}
        return Choice(actions, actions)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module `my_noise` in the current folder, with the class `Push`."""
    (tmp_path / "my_noise.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_class_of_the_users_own(own, quick):
    context = quick(PENDULUM, "td3", {**SMALL, "algorithm.exploration": "my_noise:Push"})
    context.train()
    plain = quick(PENDULUM, "td3", SMALL)
    plain.train()
    assert not same(context, plain)


@pytest.mark.parametrize(
    ("algorithm", "env", "value", "words"),
    [
        ("td3", PENDULUM, "my_noise:No", "has no 'No'"),
        ("td3", PENDULUM, "pink", "coloured"),
        ("sac", PENDULUM, "my_noise:Push", "coloured"),
        ("sac", "CartPole-v1", "coloured", "Gaussian"),
    ],
)
def test_what_cannot_be_is_refused(own, quick, algorithm, env, value, words):
    with pytest.raises(ConfigError, match=words) as error:
        quick(env, algorithm, {**SMALL, "algorithm.exploration": value}).run  # noqa: B018
    assert "exploration" in str(error.value)
