"""Rollouts that are one compiled call: those of single steps, and single steps where something has to see them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_foreign_envs.native import NativeVectorEnv
from maze_onpolicy import Sampler
from maze_onpolicy.collect.at_once import AtOnce
from maze_onpolicy.collect.plain_network import plain_network

from maze_core import NetworkAgent
from maze_core.base.errors import RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.codecs import ActionCodec
from maze_core.envs.interfaces import on_host
from maze_core.models.mlp import MlpConfig, MlpModel
from tests.maze_jax.simulators import counter, needs_gymnax, needs_jax, with_step

pytestmark = needs_jax
ROWS, T = 5, 24
VECTOR = spaces.Box(-np.inf, np.inf, (5,), np.float32)
TWO = spaces.Dict({"far": spaces.Box(-9, 9, (3,), np.float32), "near": VECTOR})
BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 5], np.float32))
SQUASHED = {"distribution": "squashed_gaussian"}
POLICIES = {
    "discrete": (VECTOR, spaces.Discrete(3, start=2), {"temperature": 0.2}),
    "several choices": (VECTOR, spaces.MultiDiscrete([3, 2, 4]), {"activation": "gelu"}),
    "as many choices": (VECTOR, spaces.MultiDiscrete([2, 2]), {"hidden": [], "temperature": 3.0}),
    "box": (TWO, BOX, {"log_std_init": 0.5, "activation": "elu", "normalize_observations": True}),
    "squashed": (VECTOR, BOX, {**SQUASHED, "log_std_init": -0.5, "layer_norm": True, "activation": "relu"}),
    "dependent": (VECTOR, BOX, {**SQUASHED, "state_dependent_std": True, "activation": "silu"}),
    "dict": (TWO, spaces.Dict({"door": spaces.Discrete(4), "pull": spaces.Box(-1, 1, (2, 2), np.float32)}), {}),
}
OTHERS = {
    "memory": (VECTOR, spaces.Discrete(3), {"memory": "gru"}),
    "masks": (spaces.Dict({"x": VECTOR, "action_mask": spaces.MultiBinary(3)}), spaces.Discrete(3), {}),
    "another kind": (VECTOR, spaces.MultiBinary(3), {}),
    "vectors of floats": (spaces.Discrete(3), spaces.Discrete(3), {}),
}


def policy_of(observations, actions, settings):
    config = MlpConfig(name="mlp", orthogonal_init=False, **settings)
    torch.manual_seed(1)
    return MlpModel(config).build_policy(observations, actions, config)


def drawn(space, rng):
    leaves = space.spaces if isinstance(space, spaces.Dict) else {"observation": space}
    return {key: rng.normal(size=(ROWS, *leaf.shape)).astype(np.float32) for key, leaf in leaves.items()}


@pytest.mark.parametrize("kind", POLICIES)
def test_jax_acts_as_torch_does(kind):
    """Samples beside those of torch's distribution, and actions beside what environments are given elsewhere."""
    import jax
    from maze_jax.acting import acting, executes

    observations, actions, settings = POLICIES[kind]
    policy, rng = policy_of(observations, actions, settings), np.random.default_rng(2)
    if policy.normalizer is not None:
        seen = {key: torch.from_numpy(0.4 + 0.3 * leaf) for key, leaf in drawn(observations, rng).items()}
        policy.normalizer.update(seen)
    plain, obs = plain_network(policy), drawn(observations, rng)
    noise = policy.draw_noise((ROWS,), torch.Generator().manual_seed(3))
    act = acting(plain.form, observations, actions)
    given = obs if isinstance(observations, spaces.Dict) else obs["observation"]
    samples, acted = jax.jit(act)(plain.arrays, given, {key: leaf.numpy() for key, leaf in noise.items()})
    with torch.no_grad():
        distribution = policy.distribution({key: torch.from_numpy(leaf) for key, leaf in obs.items()})
        expected = distribution.sample(noise)
        taken = {key: leaf.numpy() for key, leaf in distribution.env_action(expected).items()}
    for key, leaf in expected.items():
        np.testing.assert_allclose(samples[key], leaf.numpy(), rtol=1e-5, atol=1e-5)
    executed = ActionCodec(actions).batch(taken)
    assert jax.tree.structure(acted) == jax.tree.structure(executed)
    for one, other in zip(jax.tree.leaves(acted), jax.tree.leaves(executed), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert executes(actions)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_policies_are_no_plain_networks(kind):
    assert kind in plain_network(policy_of(*OTHERS[kind]))


def test_a_changed_policy_is_looked_at_again():
    policy = policy_of(*POLICIES["discrete"])
    plain = plain_network(policy)
    with torch.no_grad():
        policy.encoder.trunk.dense_layers[0].bias += 1
    assert plain.holds(policy)
    assert np.array_equal(plain.arrays["layers"][0][1], policy.encoder.trunk.dense_layers[0].bias.detach())
    policy.heads["action_head"].inverse_temperature = 2.0
    assert not plain.holds(policy)
    cooled = plain_network(policy)
    assert cooled.form == plain.form  # no other program
    assert cooled.arrays["heads"][0]["inverse_temperature"] == 2
    policy.encoder.register_forward_hook(lambda *_: None)
    assert not cooled.holds(policy)
    assert "hooks" in plain_network(policy)


@pytest.fixture(scope="module")
def steppings():
    """`steppings(simulator)`: its compiled functions, for all tests that step the counter the same ones.

    A rollout takes two calls.
    """
    import maze_jax.pool
    from maze_jax.stepping import Stepping

    maze_jax.pool.AT_ONCE, before = T // 2, maze_jax.pool.AT_ONCE

    plain = Stepping(counter(), ROWS, 6)
    yield lambda simulator=None: plain if simulator is None else Stepping(simulator, ROWS, 6)
    maze_jax.pool.AT_ONCE = before


def sampler_of(stepping, policy, *, compiled=True):
    from maze_jax.pool import Pool

    env = NativeVectorEnv(on_host(Pool(stepping, 0, tensors=False)))
    network = NetworkAgent.sampling(policy, ROWS, torch.Generator().manual_seed(4))
    at_once = AtOnce.of(network, env) if compiled else None
    return Sampler(network, env, T, EpisodeSeeds(3, Purpose.TRAIN_EPISODES), at_once=at_once)


def counting(**settings):
    simulator = counter()
    return policy_of(simulator.observation_space, simulator.action_space, {"normalize_observations": True, **settings})


def arrays_of(rollout):
    cut = {f"cut {t}": {"rows": rows, **obs} for t, rows, obs in rollout.truncations}
    columns = {name: getattr(rollout, name).copy() for name in ("rewards", "terminated", "truncated", "valid")}
    episodes = [(e.env_index, e.episode_number, e.episode_return, e.length) for e in rollout.episodes]
    trees = {
        f"{name} {key}": leaf.copy() for name in ("obs", "actions") for key, leaf in getattr(rollout, name).items()
    }
    return {**columns, **trees, "episodes": np.array(episodes)}, cut


def assert_same(one, other, tolerance):
    for found, expected in zip(one, other, strict=True):
        assert found.keys() == expected.keys()
        for key, leaf in found.items():
            if isinstance(leaf, dict):
                assert_same([leaf], [expected[key]], tolerance)
            else:
                np.testing.assert_allclose(leaf, expected[key], rtol=tolerance, atol=tolerance, err_msg=key)
                assert leaf.dtype == expected[key].dtype


def same_state(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_state(one[key], other[key]) for key in one)
    return np.array_equal(np.asarray(one), np.asarray(other))


def test_rollouts_are_those_of_single_steps(steppings):
    """Three rollouts with the same draws: the same actions, ends, cuts, episodes, and the same state afterwards."""
    policy, cuts = counting(), 0
    whole, stepwise = (sampler_of(steppings(), policy, compiled=each) for each in (True, False))
    for _ in range(3):
        found, expected = arrays_of(whole.collect()), arrays_of(stepwise.collect())
        assert_same(found, expected, 1e-5)
        cuts += len(found[1])
        assert same_state(whole.state(), stepwise.state())
    assert cuts
    assert found[0]["terminated"].any()
    assert len(found[0]["episodes"])


def test_a_saved_state_goes_on_bit_by_bit(steppings):
    policy = counting()
    unbroken, resumed = sampler_of(steppings(), policy), sampler_of(steppings(), policy)
    unbroken.collect()
    state = unbroken.state()
    expected = arrays_of(unbroken.collect())
    resumed.load_state(state)
    assert_same(arrays_of(resumed.collect()), expected, 0)


def test_what_has_to_see_the_steps_sees_them_and_it_is_told_once(steppings, capsys):
    policy, seen = counting(), []
    policy.encoder.register_forward_hook(lambda *_: seen.append(1))
    sampler = sampler_of(steppings(), policy)
    for _ in range(2):
        sampler.collect()
    assert len(seen) >= 2 * T
    told = capsys.readouterr().err
    assert told.count("note: rollouts are not compiled, but taken step by step: the policy has hooks") == 1


@pytest.mark.slow
@pytest.mark.parametrize("what", ["reward", "observation"])
def test_numbers_that_are_none_are_named_as_in_single_steps(steppings, what):
    import jax.numpy as jnp

    def spoil(outcome, key):
        bad = jnp.where(outcome.state["number"] == 5, jnp.nan, 0.0)
        if what == "reward":
            return outcome._replace(reward=outcome.reward + bad)
        return outcome._replace(observation={**outcome.observation, "number": outcome.observation["number"] + bad})

    stepping, told = steppings(with_step(spoil)), []
    for compiled in (True, False):
        with pytest.raises(RunError, match="not finite") as error:
            sampler_of(stepping, counting(), compiled=compiled).collect()
        told.append(str(error.value))
    assert told[0] == told[1]


def test_wrappers_and_integer_boxes_have_to_be_stepped(steppings):
    import gymnasium
    from maze_jax.pool import Pool
    from maze_jax.stepping import Stepping

    pool = Pool(steppings(), 0, tensors=False)
    assert NativeVectorEnv(pool).at_once() is pool
    assert "a wrapper" in NativeVectorEnv(gymnasium.wrappers.vector.TransformReward(pool, lambda r: r)).at_once()
    assert NativeVectorEnv(on_host(Pool(steppings(), 0, tensors=True))).at_once() is None
    plain = counter()
    whole = replace(
        plain, action_space=spaces.Box(0, 2, (), np.int32), step=lambda key, state, a: plain.step(key, state, a)
    )
    assert NativeVectorEnv(Pool(Stepping(whole, ROWS, 6), 0, tensors=False)).at_once() is None


@needs_gymnax
@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "trpo"])
def test_runs_learn_as_with_single_steps(quick, algorithm, capsys):
    """Two epochs with `compile=auto` and `off` end with the same networks but for rounding."""
    ends = []
    for choice in ("auto", "off"):
        context = quick("gymnax:CartPole-v1", algorithm, {"compile": choice, "evaluation.n_episodes": 0})
        context.train()
        ends.append({name: leaf.detach().clone() for name, leaf in context.run.policy.named_parameters()})
    for name, leaf in ends[0].items():
        torch.testing.assert_close(leaf, ends[1][name], rtol=1e-3, atol=1e-4)
    assert "rollouts are not compiled" not in capsys.readouterr().err
