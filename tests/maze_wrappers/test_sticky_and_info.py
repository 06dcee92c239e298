"""Actions that are repeated at random, and numbers of the info in observations."""

import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv
from maze_devkit.turns import Carousel

from maze_core.base.errors import ConfigError, MazeError
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.sources.factory import FactoryConfig, FactorySource
from maze_core.plugins.config.assembly import part_config
from maze_core.run.context import RunContext
from tests.masked import FORMS, Guarded


class Weather(gymnasium.Env):
    """Reports the steps so far as `time`, and `wind`; the last step of an episode reports nothing."""

    def __init__(self, told=None, dictionary=False):
        inner = spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = spaces.Dict({"at": inner}) if dictionary else inner
        self.action_space = spaces.Discrete(5)
        self.told, self.dictionary, self.taken = told, dictionary, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.taken = 0, []
        self.wind = np.zeros(3)
        return self._seen(), self._info()

    def step(self, action):
        self.taken.append(int(action))
        self.steps += 1
        self.wind += 1  # in place: observations must be copies
        over = self.steps == 40
        return self._seen(), 1.0, over, False, {} if over else self._info()

    def _seen(self):
        seen = np.zeros(2, np.float32)
        return {"at": seen} if self.dictionary else seen

    def _info(self):
        return {"time": self.steps, "wind": self.wind} if self.told is None else self.told


def wrap(make, name, **values):
    config = part_config("wrapper", {"name": name, **values})
    return EnvBuilder(FactoryConfig().bound_to(FactorySource.of(make)), (config,))(0)


@pytest.mark.parametrize("form", FORMS)
def test_an_action_is_not_taken_again_where_its_mask_has_changed(form):
    """`Guarded` raises where a forbidden choice is taken; the actions of a random reset are allowed ones."""
    skipping = part_config("wrapper", {"name": "step_skip", "steps": 3})
    shuffled = part_config("wrapper", {"name": "random_reset", "min_steps": 6, "max_steps": 8})
    source = FactoryConfig().bound_to(FactorySource.of(lambda: Guarded(form)))
    env = EnvBuilder(source, (skipping, shuffled))(0)
    for seed in range(3):
        env.reset(seed=seed)
        assert env.unwrapped._steps >= 6


def test_an_action_is_taken_again_while_its_mask_stays():
    skipping, steady = wrap(lambda: Guarded("a board"), "step_skip", steps=3), np.ones((2, 3), np.float32)
    skipping.reset(seed=1)
    skipping.unwrapped.look = lambda: {"at": np.zeros(2, np.float32), "action_mask": steady}
    skipping.unwrapped.members = [steady.ravel()]
    skipping.step(np.int64(4))
    assert skipping.unwrapped._steps == 1  # its mask is another one than at the reset
    skipping.step(np.int64(4))
    assert skipping.unwrapped._steps == 4


def test_a_fixed_action_of_random_resets_is_refused_where_a_mask_may_forbid_it():
    with pytest.raises(ConfigError, match=r"action: does not fit the action mask 'action_mask'"):
        wrap(lambda: Guarded("a board"), "random_reset", action=5)


def played(probability, seed, actions):
    env = wrap(Weather, "sticky_actions", probability=probability)
    env.reset(seed=seed)
    for action in actions:
        env.step(np.int64(action))
    return env.unwrapped.taken


def test_the_last_action_sticks_as_often_as_asked_and_the_seed_says_when():
    chosen = [number % 5 for number in range(39)]
    assert played(0.0, 1, chosen) == chosen
    assert played(0.25, 1, chosen) == played(0.25, 1, chosen) != played(0.25, 2, chosen)
    repeated = steps = 0
    for seed in range(100):
        taken = played(0.25, seed, chosen)
        assert taken[0] == chosen[0]
        for now, before, wanted in zip(taken[1:], taken, chosen[1:], strict=False):
            assert now in (wanted, before)  # before is what was done, not what was chosen
            repeated += now != wanted
            steps += now == wanted or before != wanted
    assert 0.23 < repeated / (100 * 38 * 0.95) < 0.27


def test_an_episode_begins_without_an_earlier_action_and_a_seed_repeats_it():
    env = wrap(Weather, "sticky_actions", probability=0.9)
    found = []
    for seed in (3, 4, 3):
        env.reset(seed=seed)
        for action in range(5):
            env.step(np.int64(action))
        found.append(list(env.unwrapped.taken))
    assert found[0] == found[2]
    assert [each[0] for each in found] == [0, 0, 0]


@pytest.mark.parametrize("make", [Carousel, "masked"])
def test_actions_that_may_be_forbidden_do_not_stick(make):
    def masked():
        seen = spaces.Dict({"at": spaces.Box(-1, 1, (2,)), "action_mask": spaces.MultiBinary(3)})
        return SpacesEnv(seen, spaces.Discrete(3))

    with pytest.raises(ConfigError, match="sticky_actions does not fit"):
        wrap(masked if make == "masked" else make, "sticky_actions")


@pytest.mark.parametrize("dictionary", [False, True])
def test_entries_of_the_info_are_leaves(dictionary):
    env = wrap(lambda: Weather(dictionary=dictionary), "info_to_observation", keys={"time": [], "wind": [3]})
    assert sorted(env.observation_space) == sorted(["at" if dictionary else "observation", "time", "wind"])
    first, _ = env.reset(seed=0)
    seen = [first]
    for _ in range(40):
        observation, *_ = env.step(np.int64(0))
        assert observation in env.observation_space
        seen.append(observation)
    assert [float(each["time"]) for each in seen] == [*range(40), 39]  # the last step told nothing
    assert [each["wind"].tolist() for each in seen[:3]] == [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
    again, _ = env.reset(seed=0)
    assert float(again["time"]) == 0


@pytest.mark.parametrize(
    ("told", "keys", "said"),
    [
        ({"x": 1.0}, {"time": []}, "the info has no 'time' but ['x']"),
        ({"time": [1, 2]}, {"time": []}, "'time' in the info has the shape (2,), not ()"),
        ({"time": "noon"}, {"time": []}, "'time' in the info is no number"),
        ({"time": [[1], [1, 2]]}, {"time": [2]}, "'time' in the info is no number"),
        ({"time": None}, {"time": [2]}, "'time' in the info"),
        ({"observation": 1}, {"observation": []}, "the observation has 'observation' already"),
        ({}, {}, "keys"),
        ({}, {"time": [0]}, "keys"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(told, keys, said):
    with pytest.raises(MazeError, match=re.escape(said)):
        wrap(lambda: Weather(told), "info_to_observation", keys=keys).reset(seed=0)


def test_both_train_and_resume_exactly(tmp_path, quick, whole_state, assert_same):
    wrappers = [
        {"name": "info_to_observation", "keys": {"time": [], "wind": [3]}},
        {"name": "sticky_actions", "probability": 0.5},
    ]
    whole = quick(Weather, wrappers=wrappers, overrides={"algorithm.n_epochs": 3})
    whole.train()
    part = quick(Weather, wrappers=wrappers, overrides={"algorithm.n_epochs": 3})
    part.train(1)
    context = RunContext(Weather, "ppo", wrappers=wrappers, preset="none", silent=True)
    context.resume(part.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(part.run_dir))
