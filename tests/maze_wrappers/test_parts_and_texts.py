"""Wrappers that act before Maze judges spaces, and masks that come from elsewhere."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv
from maze_devkit.probes import Told

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.sources.factory import FactoryConfig, FactorySource
from maze_core.envs.spaces import allocate, space_specs
from maze_core.plugins.config.assembly import part_config

SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)


class Mission(spaces.Space):
    """A space of texts that is no Text, as MiniGrid's."""

    def __init__(self):
        super().__init__(dtype=str)

    def sample(self, mask=None, probability=None):
        return "get to the green goal square"

    def contains(self, x):
        return isinstance(x, str)


def grid():
    """Observations as MiniGrid's, and more."""
    parts = {
        "image": spaces.Box(0, 255, (7, 7, 3), np.uint8),
        "mission": Mission(),
        "robot": spaces.Dict({"name": spaces.Text(9), "arm": spaces.Box(-1, 1, (2,))}),
        "pair": spaces.Tuple((spaces.Discrete(3), spaces.Text(4), spaces.Discrete(5))),
    }
    return SpacesEnv(spaces.Dict(parts), spaces.Discrete(3))


def wrap(make, *wrappers):
    configs = tuple(part_config("wrapper", {"name": name, **values}) for name, values in wrappers)
    return EnvBuilder(FactoryConfig().bound_to(FactorySource.of(make)), configs)(0)


def contained(env):
    """The space, after some steps whose observations are in it."""
    assert env.observation_space.contains(env.reset(seed=1)[0])
    for _ in range(3):
        assert env.observation_space.contains(env.step(env.action_space.sample())[0])
    return env.observation_space


def test_what_is_dropped_is_never_judged():
    env = wrap(grid, ("drop", {"keys": ["mission", "robot/name", "pair/1"]}))
    space = contained(env)
    assert list(space["robot"]) == ["arm"]
    assert space["pair"] == spaces.Tuple((spaces.Discrete(3), spaces.Discrete(5)))
    observations = SerialVectorEnv(lambda _: env, 1)
    observations.reset(SEEDS, allocate(space_specs(space, "observation"), (1,)))
    assert set(contained(wrap(grid, ("drop", {"keys": ["mission", "robot", "pair"]})))) == {"image"}


def test_what_is_selected_is_all_that_there_is():
    assert contained(wrap(grid, ("select", {"keys": ["image"]}))) == spaces.Dict(
        {"image": grid().observation_space["image"]}
    )
    arm = contained(wrap(grid, ("select", {"keys": ["robot/arm", "pair/2"]})))
    assert arm == spaces.Dict(
        {"robot": spaces.Dict({"arm": spaces.Box(-1, 1, (2,))}), "pair": spaces.Tuple((spaces.Discrete(5),))}
    )


@pytest.mark.parametrize(
    ("wrapper", "message"),
    [
        (
            ("drop", {"keys": ["missoin"]}),
            "wrappers.0.keys: there is no part 'missoin'\nThe parts are image, mission, ",
        ),
        (("drop", {"keys": ["robot/na"]}), "there is no part 'robot/na'"),
        (("drop", {"keys": ["image", "mission", "robot", "pair"]}), "no part of the observation is left"),
        (("tokenize", {"keys": ["image"]}), "'image' .* is not a text"),
    ],
)
def test_what_does_not_fit_is_said_before_the_first_step(wrapper, message):
    with pytest.raises(ConfigError, match=message):
        wrap(grid, wrapper)


def test_a_single_space_has_no_parts():
    with pytest.raises(ConfigError, match="single Box: it has no parts"):
        wrap(lambda: SpacesEnv(spaces.Box(-1, 1, (2,)), spaces.Discrete(2)), ("select", {"keys": ["x"]}))


def test_texts_become_numbers_of_words():
    words = {"words": ["get", "to", "the", "green"], "length": 6}
    env = wrap(grid, ("tokenize", {"keys": ["mission"], **words}), ("drop", {"keys": ["robot", "pair"]}))
    assert contained(env)["mission"] == spaces.MultiDiscrete([6] * 6)
    assert env.reset(seed=1)[0]["mission"].tolist() == [1, 2, 3, 4, 5, 5]
    env = wrap(grid, ("tokenize", {"length": 4, "vocabulary": 100}))
    assert contained(env)["robot"]["name"] == contained(env)["pair"][1] == spaces.MultiDiscrete([101] * 4)
    # NoisePlan by the letters: the same in every process.
    assert env.reset(seed=1)[0]["mission"].tolist() == [61, 57, 79, 34]
    longer = wrap(grid, ("tokenize", {"length": 9}))
    assert longer.reset(seed=1)[0]["mission"][6:].tolist() == [0, 0, 0]


def test_a_lone_text_becomes_numbers():
    env = wrap(lambda: SpacesEnv(spaces.Text(30), spaces.Discrete(2)), ("tokenize", {"length": 3}))
    assert contained(env) == spaces.MultiDiscrete([33] * 3)


class Methodical(Told):
    """Tells its masks by a method."""

    def _info(self):
        return {}

    def action_masks(self):
        return [bool(i != self._steps % 3) for i in range(3)]


class Silent(Told):
    """Its last info has no mask."""

    def step(self, action):
        *result, info = super().step(action)
        return *result, {} if result[2] or result[3] else info


class Closing(Told):
    """Its last mask forbids everything."""

    def step(self, action):
        *result, info = super().step(action)
        return *result, {"action_mask": np.zeros(3)} if result[2] or result[3] else info


@pytest.mark.parametrize("make", [Told, Methodical, Silent, Closing])
def test_masks_from_elsewhere_are_obeyed(make, quick):
    env = wrap(make, ("mask_from_info", {}))
    assert set(env.observation_space) == {"observation", "action_mask"}
    for seed in range(5):
        observation, _ = env.reset(seed=seed)
        for step in range(1, 40):
            assert env.observation_space.contains(observation)
            assert observation["action_mask"].any()
            observation, _, terminated, truncated, _ = env.step(0)
            if terminated or truncated:
                assert observation["action_mask"].any()
                break
            assert observation["action_mask"].tolist() == [int(i != step % 3) for i in range(3)]
    chosen = []

    class Watched(make):
        def step(self, action):
            chosen.append((self._steps % 3, int(action)))
            return super().step(action)

    with quick(Watched, wrappers=["mask_from_info"]) as context:
        context.train()
    assert len(chosen) > 50
    assert all(forbidden != action for forbidden, action in chosen)


def test_masks_of_several_choices_come_one_by_one_or_at_once():
    class Two(gymnasium.Env):
        observation_space = spaces.Dict({"x": spaces.Discrete(2)})
        action_space = spaces.MultiDiscrete([2, 3])
        mask = (np.array([1, 0]), [True, True, False])

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return {"x": 1}, {"legal": self.mask}

    env = wrap(Two, ("mask_from_info", {"key": "legal"}))
    assert env.observation_space == spaces.Dict({"x": spaces.Discrete(2), "action_mask": spaces.MultiBinary(5)})
    assert env.reset()[0]["action_mask"].tolist() == [1, 0, 1, 1, 0]
    Two.mask = np.array([0, 1, 0, 0, 1])
    assert env.reset()[0]["action_mask"].tolist() == [0, 1, 0, 0, 1]
    Two.mask = np.ones(4)
    with pytest.raises(RunError, match="mask of 4 entries for 5 choices"):
        env.reset()


def test_what_cannot_be_masked_is_said():
    with pytest.raises(ConfigError, match=r"no 'action_mask' but \[\], and the environment no method action_masks"):
        wrap(grid, ("mask_from_info", {})).reset()
    with pytest.raises(ConfigError, match="Discrete, MultiDiscrete and MultiBinary can be masked"):
        wrap(lambda: SpacesEnv(spaces.Discrete(3), spaces.Box(-1, 1, (2,))), ("mask_from_info", {}))
    with pytest.raises(ConfigError, match="has 'action_mask' already"):
        wrap(Told, ("mask_from_info", {}), ("mask_from_info", {}))


def test_taxi_is_masked():
    taxi = next(name for name in ("Taxi-v3", "Taxi-v4") if name in gymnasium.registry)
    env = wrap(lambda: gymnasium.make(taxi), ("mask_from_info", {}))
    observation, info = env.reset(seed=1)
    assert observation["action_mask"].tolist() == info["action_mask"].tolist()
    assert env.observation_space["observation"] == spaces.Discrete(500)


def test_hidden_elements_are_gone_and_the_others_stay_in_order():
    env = wrap(partial(gymnasium.make, "CartPole-v1"), ("hide", {"elements": [1, 3]}))
    whole = gymnasium.make("CartPole-v1")
    seen, everything = env.reset(seed=4)[0], whole.reset(seed=4)[0]
    np.testing.assert_array_equal(seen, everything[[0, 2]])
    np.testing.assert_array_equal(env.observation_space.high, whole.observation_space.high[[0, 2]])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"elements": [4]}, "0 to 3"),
        ({"elements": [0, 1, 2, 3]}, "no element left"),
        ({"elements": [-1]}, "0 to 3"),
        ({"elements": [0], "keys": ["velocity"]}, "there is no leaf 'velocity'"),
    ],
)
def test_elements_that_are_not_there_are_refused(parameters, message):
    with pytest.raises(ConfigError, match=message):
        wrap(partial(gymnasium.make, "CartPole-v1"), ("hide", parameters))
