"""Every wrapper that changes spaces: alone like gymnasium's own, per key on Dict spaces, honest about its space."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from maze_devkit.envs import CountingEnv, SeededWalk, SpacesEnv
from maze_devkit.probes import Doors, Workshop
from maze_wrappers.images import area_weights

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.sources.factory import FactoryConfig, FactorySource
from maze_core.envs.spaces import allocate, flatten_space, space_specs
from maze_core.plugins.config.assembly import part_config

SEEDS = EpisodeSeeds(5, Purpose.TRAIN_EPISODES)


def wrap(env, *wrappers):
    """The builder of an environment with wrappers, given as (name, parameters)."""
    parts = tuple(part_config("wrapper", {"name": name, **values}) for name, values in wrappers)
    return EnvBuilder(FactoryConfig().bound_to(FactorySource.of(env)), parts, seed=1)


def follow(env, steps=60, seed=3):
    """Observations, rewards and ends of a walk with random actions; every observation must be in the space."""
    env.action_space.seed(seed)
    seen, number = [], 0
    observation, _ = env.reset(seed=seed)
    for _ in range(steps):
        assert env.observation_space.contains(observation), (observation, env.observation_space)
        action = env.action_space.sample()
        result = env.step(action)
        seen.append((observation, action, *result[:4]))
        observation = result[0]
        if result[2] or result[3]:
            assert env.observation_space.contains(observation)
            number += 1
            observation, _ = env.reset(seed=seed + number)
    return seen


def pictured():
    return SpacesEnv(spaces.Box(0, 255, (6, 9, 3), np.uint8), spaces.Box(-2, 2, (2,), np.float32))


GYMNASIUM = gymnasium.wrappers
LIKE = {
    "flatten": (pictured, {}, GYMNASIUM.FlattenObservation),
    "gray": (pictured, {}, GYMNASIUM.GrayscaleObservation),
    "gray_kept": (pictured, {"keep_channel": True}, lambda env: GYMNASIUM.GrayscaleObservation(env, True)),
    "unsqueeze": (SeededWalk, {"axis": -1}, lambda env: GYMNASIUM.ReshapeObservation(env, (2, 1))),
    "stack": (SeededWalk, {"size": 3}, lambda env: GYMNASIUM.FrameStackObservation(env, 3)),
    "stack_zero": (
        SeededWalk,
        {"size": 2, "padding": "zero"},
        lambda env: GYMNASIUM.FrameStackObservation(env, 2, padding_type="zero"),
    ),
    "rescale_actions": (pictured, {}, lambda env: GYMNASIUM.RescaleAction(env, np.float32(-1), np.float32(1))),
    "discretize_actions": (
        pictured,
        {"bins": 3},
        lambda env: GYMNASIUM.DiscretizeAction(env, 3, multidiscrete=True),
    ),
    "discretize_actions_one": (
        pictured,
        {"bins": 3, "space": "discrete"},
        lambda env: GYMNASIUM.DiscretizeAction(env, 3),
    ),
    "time_limit": (SeededWalk, {"steps": 4}, lambda env: GYMNASIUM.TimeLimit(env, 4)),
    "clip_reward": (SeededWalk, {}, lambda env: GYMNASIUM.ClipReward(env, -1, 1)),
    "scale_reward": (
        SeededWalk,
        {"factor": 2, "shift": 1},
        lambda env: GYMNASIUM.TransformReward(env, lambda r: 2 * r + 1),
    ),
    "normalize_reward": (SeededWalk, {}, GYMNASIUM.NormalizeReward),
}


@pytest.mark.parametrize("case", LIKE)
def test_on_single_spaces_it_is_gymnasiums(case):
    make, values, theirs = LIKE[case]
    name = next((n for n in ("stack", "gray", "discretize_actions") if case.startswith(n)), case)
    ours, expected = wrap(make, (name, values))(0), theirs(make())
    assert ours.observation_space == expected.observation_space
    assert ours.action_space == expected.action_space
    for mine, other in zip(follow(ours), follow(expected), strict=True):
        np.testing.assert_equal(mine, other)


ON_DICTS = {
    "flatten": ({}, "picture", spaces.Box(0, 255, (144,), np.uint8)),
    "one_hot": ({}, "mode", spaces.MultiBinary(4)),
    "transpose": ({}, "picture", spaces.Box(0, 255, (3, 6, 8), np.uint8)),
    "unsqueeze": ({"keys": ["gauge"], "axis": 0}, "gauge", spaces.Box(-np.inf, np.inf, (1, 3), np.float64)),
    "hide": ({"elements": [1]}, "gauge", spaces.Box(-np.inf, np.inf, (2,), np.float64)),
    "gray": ({}, "picture", spaces.Box(0, 255, (6, 8), np.uint8)),
    "resize": ({"height": 3, "width": 4}, "picture", spaces.Box(0, 255, (3, 4, 3), np.uint8)),
    "stack": ({"keys": ["gauge"], "size": 2}, "gauge", spaces.Box(-np.inf, np.inf, (2, 3), np.float64)),
}


@pytest.mark.parametrize("name", ON_DICTS)
def test_on_dict_spaces_it_changes_the_chosen_leaf_alone(name):
    values, key, space = ON_DICTS[name]
    env, plain = wrap(Workshop, (name, values))(0), Workshop()
    assert env.observation_space[key] == space
    for mine, other in zip(follow(env), follow(plain), strict=True):
        for each in ("picture", "gauge", "mode"):
            if each != key:
                np.testing.assert_equal(mine[0][each], other[0][each])
                np.testing.assert_equal(mine[2][each], other[2][each])  # the last of an episode as well
        np.testing.assert_equal(mine[3:], other[3:])
    with pytest.raises(ConfigError, match=r"^wrappers.0.keys: there is no leaf 'x'\nThe leaves are gauge, mode, pict"):
        wrap(Workshop, (name, {**values, "keys": ["x"]}))(0)


def test_what_the_values_become():
    wrapped = (("one_hot", {}), ("stack", {"size": 2, "keys": ["gauge"]}), ("gray", {}))
    with pytest.raises(
        ConfigError, match=r"^wrappers.3: transpose would change nothing: 'gauge' is not a Box with 3 axes"
    ):
        wrap(Workshop, *wrapped, ("transpose", {}))(0)
    for mine, other in zip(follow(wrap(Workshop, *wrapped)(0)), follow(Workshop()), strict=True):
        assert mine[2]["mode"].tolist() == np.eye(4)[int(other[2]["mode"]) - 2].tolist()
        np.testing.assert_array_equal(mine[2]["gauge"][1], other[2]["gauge"])
        np.testing.assert_array_equal(mine[2]["gauge"][0], other[0]["gauge"])


LEAVES = st.sampled_from(
    [
        spaces.Box(-1, 1, (3,), np.float32),
        spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
        spaces.Box(0, 255, (5, 4, 3), np.uint8),
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([2, 3], start=[1, 0]),
        spaces.MultiBinary(3),
    ]
)
OBSERVATION_WRAPPERS = st.sampled_from(
    [
        ("flatten", {}),
        ("one_hot", {}),
        ("transpose", {"axes": (1, 0)}),
        ("unsqueeze", {}),
        ("rescale_observations", {"low": 0}),
        ("gray", {}),
        ("resize", {"height": 7, "width": 2}),
        ("stack", {"size": 2}),
        ("monitor", {}),
        ("count_choices", {}),
        ("random_reset", {"max_steps": 3}),
        ("time_limit", {"steps": 3}),
        ("step_skip", {"steps": 2}),
    ]
)


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        st.one_of(LEAVES, st.dictionaries(st.just("x"), LEAVES, min_size=1)),
        min_size=1,
    ),
    st.lists(OBSERVATION_WRAPPERS, min_size=1, max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_any_wrappers_on_any_dict_give_what_they_declare_or_say_why_not(tree, wrappers):
    """Also side by side in a vectorised environment, where masks stay as they are."""

    def make():
        space = spaces.Dict({k: spaces.Dict(v) if isinstance(v, dict) else v for k, v in tree.items()})
        space["action_mask"] = spaces.MultiBinary(2)
        return SpacesEnv(space, spaces.Discrete(2))

    # An all-zero mask would leave the random steps of random_reset no choice.
    wrappers = [each for each in wrappers if each[0] != "random_reset"] or [("monitor", {})]
    # Two wrappers that report the same events are refused.
    wrappers = list(
        {each[0] if each[0] == "count_choices" else place: each for place, each in enumerate(wrappers)}.values()
    )
    try:
        builder = wrap(make, *wrappers)
        env = builder(0)
    except ConfigError as error:
        assert str(error.where).startswith("wrappers.")  # noqa: PT017
        return
    assert env.observation_space["action_mask"] == spaces.MultiBinary(2)
    follow(env, 12)
    try:
        flatten_space(env.observation_space, "observation")
    except ConfigError:
        return
    vector = SerialVectorEnv(builder, 2)
    out = allocate(space_specs(vector.observation_space, "observation"), (2,))
    vector.reset(SEEDS, out)
    for _ in range(8):
        vector.step({"action": np.zeros(2, np.int64)}, out)


def test_masks_survive_and_still_fit():
    names = ("flatten", {"keys": ["action_mask"]})
    with pytest.raises(ConfigError, match=r"^wrappers.0.keys: 'action_mask' .* is an action mask"):
        wrap(Doors, names)(0)

    class Remembering(Doors):
        def observe(self):
            self.seen = super().observe()
            return self.seen

    env = wrap(Remembering, ("stack", {"size": 3}), ("random_reset", {"max_steps": 4}))(0)
    assert env.observation_space["action_mask"] == spaces.MultiBinary(7)
    for number in range(20):
        observation, _ = env.reset(seed=number)  # the random steps keep to the masks, or Doors raises
        np.testing.assert_array_equal(observation["action_mask"], env.unwrapped.seen["action_mask"])


def test_stacks_hold_copies():
    env = wrap(CountingEnv, ("stack", {"size": 3}))(0)  # overwrites one buffer at each step
    env.reset()
    for _ in range(3):
        observation = env.step(0)[0]
    assert observation[:, 2].tolist() == [1, 2, 3]


@given(st.integers(1, 40), st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_areas_add_up(old, new):
    weights = area_weights(old, new)
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
    if old % new == 0:
        rows = np.random.default_rng(0).random(old)
        np.testing.assert_allclose(weights @ rows, rows.reshape(new, -1).mean(1), rtol=1e-5)


def test_actions_in_parts_reach_the_environment_whole():
    box = spaces.Box(np.array([-1, 0, 2], np.float32), np.array([1, 3, 5], np.float32))
    env = wrap(lambda: SpacesEnv(box, box), ("split_actions", {"parts": {"steer": [0], "pedals": [2, 1]}}))(0)
    assert env.action_space["pedals"] == spaces.Box(np.array([2, 0], np.float32), np.array([5, 3], np.float32))
    env.reset(seed=1)
    env.step({"steer": np.array([0.5], np.float32), "pedals": np.array([4, 1], np.float32)})
    assert env.unwrapped.last_action.tolist() == [0.5, 1, 4]
    whole = spaces.MultiDiscrete([3, 4], start=[0, 2])
    follow(wrap(lambda: SpacesEnv(box, whole), ("split_actions", {}))(0))
    with pytest.raises(ConfigError, match=r"^wrappers.0.parts: must name each of the dimensions 0 to 2 once"):
        wrap(lambda: SpacesEnv(box, box), ("split_actions", {"parts": {"a": [0, 0]}}))(0)
    with pytest.raises(ConfigError, match="a masked action cannot be split"):
        wrap(Doors, ("split_actions", {}))(0)


def test_nested_actions_are_changed_by_key():
    env = wrap(Workshop, ("discretize_actions", {"bins": 3}))(0)
    assert env.action_space["arm"]["force"] == spaces.MultiDiscrete([3, 3])
    follow(env)  # Workshop insists on actions of its own space
    follow(wrap(Workshop, ("rescale_actions", {"low": 0, "high": 2}))(0))


@pytest.mark.parametrize(
    ("name", "values", "where"),
    [
        ("clip_reward", {"low": 2}, "wrappers.0.high"),
        ("random_reset", {"min_steps": 31}, "wrappers.0.min_steps"),
        ("random_reset", {"action": 9}, "wrappers.0.action"),
        ("normalize_observations", {"estimate_steps": 0}, "wrappers.0.estimate_steps"),
        ("transpose", {"axes": [0, 0]}, "wrappers.0.axes"),
        ("rescale_actions", {}, "wrappers.0"),
        ("split_actions", {"key": "x"}, "wrappers.0.key"),
    ],
)
def test_what_does_not_fit_is_named(name, values, where):
    with pytest.raises(ConfigError) as caught:
        wrap(SeededWalk, (name, values))(0)
    assert caught.value.where == where
