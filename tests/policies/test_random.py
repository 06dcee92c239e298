"""The random policy and the contract of policy plugins."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_core.base.errors import ConfigError, PluginError, RunError
from maze_core.collect.policies.base import ActingPolicy, build_policy_plugin
from maze_core.collect.policies.random import RandomPolicy
from maze_core.envs.codecs import ActionCodec
from maze_core.models.distributions import BoxScale
from maze_core.models.distributions.chosen import HeadOptions, make_head
from maze_core.plugins import discovery
from maze_core.plugins.config.base import PluginConfig

ACTION = spaces.Dict(
    {
        "move": spaces.Box(np.array([-1, -np.inf, 0]), np.array([3, np.inf, np.inf]), dtype=np.float64),
        "count": spaces.Box(-2, 3, (2,), np.int8),
        "tool": spaces.Discrete(4, start=7),
        "pair": spaces.MultiDiscrete([2, 3], start=[5, 5]),
        "bits": spaces.MultiBinary(3),
    }
)
OBSERVATION = spaces.Dict(
    {
        "x": spaces.Box(-1, 1, (2,)),
        "tool_mask": spaces.MultiBinary(4),
        "pair_mask": spaces.MultiBinary(5),
        "bits_mask": spaces.MultiBinary(3),
    }
)
MASKS = {
    "tool_mask": np.array([0, 1, 1, 0], np.int8),
    "pair_mask": np.array([0, 1, 1, 0, 1], np.int8),
    "bits_mask": np.array([1, 0, 1], np.int8),
}


def policy(observation=OBSERVATION, action=ACTION):
    return build_policy_plugin(PluginConfig(name="random").bound_to(RandomPolicy), observation, action)


def obs(rows):
    return {"x": np.zeros((rows, 2), np.float32)} | {key: np.tile(mask, (rows, 1)) for key, mask in MASKS.items()}


def rngs(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


def test_every_action_is_allowed_and_every_allowed_one_is_taken():
    rows = 400
    actions = policy().act(obs(rows), rngs(*range(rows)))
    assert all(action in ACTION for action in ActionCodec(ACTION).rows(actions))
    assert set(actions["tool"]) == {1, 2}
    assert {tuple(row) for row in actions["pair"]} == {(1, 0), (1, 2)}
    assert {tuple(row) for row in actions["bits"]} == {(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1)}
    assert set(actions["count"].ravel()) == {-2, -1, 0, 1, 2, 3}
    bounded, free, half = actions["move"].T
    assert abs(bounded.mean() - 1) < 0.2
    assert bounded.min() < -0.8
    assert bounded.max() > 2.8
    assert (free < 0).any()
    assert (free > 0).any()
    assert half.min() >= 0


def test_a_row_depends_on_its_own_generator_only():
    together = policy().act(obs(3), rngs(5, 6, 7))
    alone = policy().act(obs(1), rngs(6))
    for key in together:
        np.testing.assert_array_equal(together[key][1], alone[key][0])


def test_a_mask_without_a_choice_is_an_error():
    tree = obs(2)
    tree["tool_mask"][1] = 0
    with pytest.raises(RunError, match="tool_mask"):
        policy().act(tree, rngs(1, 2))


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [
        (np.float16, np.finfo(np.float16).max),
        (np.float32, np.finfo(np.float32).max),
        (np.float32, 1e30),
        (np.float64, np.finfo(np.float32).max),
        (np.float64, np.finfo(np.float64).max),
        (np.float64, np.inf),
    ],
)
def test_the_largest_number_is_no_bound(dtype, largest):
    """Nor is it to the distributions: those that need bounds refuse it, the Gaussian keeps its units."""
    low = np.array([-largest, -largest, 2, -3], dtype)
    high = np.array([largest, -5, largest, 3], dtype)
    space = spaces.Box(low, high, dtype=dtype)
    actions = policy(spaces.Box(-1, 1, (1,)), space).act({"observation": np.zeros((300, 1))}, rngs(*range(300)))[
        "action"
    ]
    assert all(row in space for row in actions.astype(dtype))
    assert np.isfinite(actions).all()
    free, below, above, bounded = actions.astype(np.float64).T
    assert abs(free.mean()) < 0.3
    assert abs(free.std() - 1) < 0.2
    for tail in (-5 - below, above - 2):
        assert abs(tail.mean() - 1) < 0.3
    assert bounded.min() < -2.5
    assert bounded.max() > 2.5
    scale = BoxScale(space)
    assert not scale.bounded
    assert scale.centre.tolist() == [0, 0, 0, 0]
    assert scale.radius.tolist() == [1, 1, 1, 3]
    for distribution in ("squashed_gaussian", "beta"):
        with pytest.raises(ConfigError, match="needs finite bounds"):
            make_head("action", space, 4, HeadOptions(distribution=distribution))


@pytest.mark.parametrize("bound", [1e4, 1e29])
def test_large_bounds_are_bounds(bound):
    space = spaces.Box(-bound, bound, (2,), np.float32 if bound > 1e5 else np.float16)
    actions = policy(spaces.Box(-1, 1, (1,)), space).act({"observation": np.zeros((300, 1))}, rngs(*range(300)))[
        "action"
    ]
    assert np.abs(actions).mean() == pytest.approx(bound / 2, rel=0.1)
    assert BoxScale(space).bounded


def test_it_plays_a_single_discrete_space():
    env = gymnasium.make("CartPole-v1")
    actions = policy(env.observation_space, env.action_space).act(
        {"observation": np.zeros((50, 4), np.float32)}, rngs(*range(50))
    )
    assert actions["action"].dtype == np.int64
    assert set(actions["action"]) == {0, 1}


def test_a_policy_may_refuse_spaces():
    class Fussy(ActingPolicy):
        def setup(self, observation_space, action_space):
            raise ConfigError("only for landers", "--policy")

        def act(self, obs, rngs):
            return {}

    with pytest.raises(ConfigError, match="landers"):
        build_policy_plugin(PluginConfig(name="fussy").bound_to(Fussy), OBSERVATION, ACTION)


def test_a_policy_of_another_class_is_named():
    class Other:
        def __init__(self, config):
            pass

    with pytest.raises(PluginError, match=r"'other'.*Other"):
        build_policy_plugin(PluginConfig(name="other").bound_to(Other), OBSERVATION, ACTION)


def test_random_is_installed():
    assert discovery.load("policy", "random") is RandomPolicy
