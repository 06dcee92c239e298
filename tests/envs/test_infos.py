"""An info that is no dict is refused by its name, wherever it comes from."""

import functools

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_actors import Turn, TurnEnv
from maze_actors.agents import MultiAgentEnv, Round
from maze_actors.vector_env import AgentsVectorEnv
from maze_actors.wrapped import WrappedParts
from maze_devkit.envs import CountingEnv
from maze_devkit.turns import Carousel
from maze_foreign_envs.native import NativeVectorEnv
from maze_foreign_envs.old_api import OldApi

from maze_core.base.errors import MazeError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs

NO_DICTS = [None, [], "nothing", 3, (("a", 1),)]
SEEDS = EpisodeSeeds(1, Purpose.EVAL_EPISODES)


class Telling(CountingEnv):
    """Tells something at its resets, its steps, or the ends of its episodes."""

    def __init__(self, info, at):
        super().__init__(4)
        self._told, self._at = info, at

    def reset(self, **options):
        observation, info = super().reset(**options)
        return observation, self._told if self._at == "reset" else info

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if self._at == "step" or (self._at == "end" and (terminated or truncated)):
            info = self._told
        return observation, reward, terminated, truncated, info


class Old:
    """An environment of gym, before gymnasium."""

    observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)

    def __init__(self, info):
        self._told = info

    def seed(self, seed=None):
        return [seed]

    def reset(self):
        return np.zeros(1, np.float32)

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, self._told


class Told(TurnEnv):
    """One actor, whose turns tell something."""

    def __init__(self, info):
        super().__init__({"a": (spaces.Discrete(2), spaces.Discrete(2))})
        self._told = info

    def first_turn(self):
        return Turn("a", 0)

    def next_turn(self, actor, action):
        return Turn("a", 0, info=self._told)


class Vectorised(gymnasium.vector.VectorEnv):
    """Two environments that are stepped at once."""

    def __init__(self, info, at):
        self.num_envs, self._told, self._at = 2, info, at
        self.single_observation_space, self.single_action_space = Old.observation_space, Old.action_space
        self.observation_space, self.action_space = spaces.Box(-1, 1, (2, 1)), spaces.MultiDiscrete([2, 2])
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}

    def reset(self, *, seed=None, options=None):
        return np.zeros((2, 1), np.float32), self._told if self._at == "reset" else {}

    def step(self, actions):
        zeros = np.zeros(2)
        return np.zeros((2, 1), np.float32), zeros, zeros.astype(bool), zeros.astype(bool), self._told


class Together(MultiAgentEnv):
    """Two agents that act at the same time; `infos` of each result."""

    agents = ("a", "b")
    observation_spaces = action_spaces = dict.fromkeys(agents, spaces.Discrete(2))

    def __init__(self, infos, at):
        self._infos, self._at = infos, at

    def reset(self, seed):
        return Round({"a": 0, "b": 1}, infos=self._infos if self._at == "reset" else {})

    def step(self, actions):
        return Round({"a": 0, "b": 1}, {"a": 1.0}, infos=self._infos)


def play(env):
    """Reset the environments, and step them to the end of an episode."""
    out = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
    env.reset(SEEDS, out)
    actions = allocate(space_specs(env.action_space, "action"), (env.num_envs,))
    for _ in range(6):
        env.step(actions, out)


def serial(make):
    return SerialVectorEnv(lambda index: make(), 2)


@pytest.mark.parametrize("info", NO_DICTS, ids=str)
@pytest.mark.parametrize("at", ["reset", "step", "end"])
def test_of_gymnasium(info, at):
    refused(lambda: serial(functools.partial(Telling, info, at)))


@pytest.mark.parametrize("info", NO_DICTS, ids=str)
def test_of_other_interfaces(info):
    refused(lambda: serial(lambda: OldApi(Old(info))))
    refused(lambda: serial(lambda: Told(info)))


@pytest.mark.parametrize("info", NO_DICTS, ids=str)
@pytest.mark.parametrize("at", ["reset", "step"])
def test_of_natively_vectorised_environments(info, at):
    refused(lambda: NativeVectorEnv(Vectorised(info, at)))


@pytest.mark.parametrize("info", NO_DICTS, ids=str)
@pytest.mark.parametrize("at", ["reset", "step"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_of_several_agents(info, at, wrapped):
    def make(infos):
        def built(index):
            env = Together(infos, at)
            return WrappedParts(env, gymnasium.Wrapper) if wrapped else env

        return AgentsVectorEnv(built, 2)

    refused(lambda: make({"b": info}))
    if not wrapped:
        refused(lambda: make(info))


def refused(make):
    with pytest.raises(MazeError, match="info that is no dict"):
        play(make())


def test_an_empty_one_is_none_of_these():
    play(serial(functools.partial(Telling, {}, "step")))
    play(serial(Carousel))
    play(NativeVectorEnv(Vectorised({}, "reset")))
    play(AgentsVectorEnv(lambda index: Together({}, "step"), 2))
