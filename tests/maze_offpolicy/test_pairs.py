"""Every pair of features trains, or is refused with the reason of the one table."""

from __future__ import annotations

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_actors.agents import MultiAgentEnv, Round
from maze_offpolicy.collect import pairs
from maze_offpolicy.collect.pairs import (
    AGENTS,
    FRAMES,
    HINDSIGHT,
    IN_LOCKSTEP,
    LEARNERS,
    MASKS,
    MEMORY,
    N_STEP,
    NORMALISER,
    OF_NO_ALGORITHM,
    PRIORITIES,
    REFUSED,
    STORED_WHOLE,
    WORKERS,
)

from maze_core import Plugin, PluginConfig, hookimpl
from maze_core.base.errors import ConfigError

SMALL = {
    "algorithm.num_envs": 3,
    "algorithm.batch_size": 16,
    "algorithm.initial_buffer_size": 24,
    "algorithm.replay_buffer_size": 600,
    "algorithm.n_rollout_steps": 8,
    "evaluation.n_episodes": 1,
    "evaluation.num_envs": 1,
}
SETTINGS = {
    HINDSIGHT: {"algorithm.her_goals": 2},
    N_STEP: {"algorithm.n_step": 3},
    PRIORITIES: {"algorithm.prioritized": True},
    MEMORY: {"model.memory": "gru", "model.memory_size": 4},
    NORMALISER: {"model.normalize_observations": True},
    WORKERS: {"runner": "local", "runner.workers": 2},
    LEARNERS: {"learners": 2},
}


def observation_space(features):
    """With every part that features ask for."""
    parts = {"place": spaces.Box(-np.inf, np.inf, (2,), np.float32)}
    if HINDSIGHT in features:
        parts |= {"achieved_goal": spaces.Box(-9, 9, (1,)), "desired_goal": spaces.Box(-9, 9, (1,))}
        parts["observation"] = parts.pop("place")
    if MASKS in features:
        parts["action_mask"] = spaces.MultiBinary(3)
    if FRAMES in features:
        parts["film"] = spaces.Box(0, 255, (4, 20, 20), np.uint8)
    return spaces.Dict(parts)


class Field(gymnasium.Env):
    """A walk of six steps to a goal, with all that features ask for."""

    def __init__(self, *features):
        self.features = features
        self.observation_space, self.action_space = observation_space(features), spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps, self.goal = 0, 0, int(self.np_random.integers(-2, 3))
        self.film = np.zeros((4, 20, 20), np.uint8)
        return self.seen(), {}

    def step(self, action):
        if MASKS in self.features:
            assert self.allowed()[action], "a forbidden action"
        self.place += int(action) - 1
        self.steps += 1
        self.film = np.concatenate([self.film[1:], np.full((1, 20, 20), self.place + 10, np.uint8)])
        reward = float(self.compute_reward(np.array([self.place]), np.array([self.goal]), {}))
        return self.seen(), reward, False, self.steps >= 6, {}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return (np.asarray(achieved_goal) == np.asarray(desired_goal)).all(-1) - 1.0

    def allowed(self):
        return np.array([self.place > -3, True, self.place < 3], np.int8)

    def seen(self):
        here = np.array([self.place, self.steps], np.float32)
        found = {"place": here, "observation": here, "film": self.film.copy(), "action_mask": self.allowed()}
        found |= {"achieved_goal": here[:1], "desired_goal": np.array([self.goal], np.float32)}
        return {key: found[key] for key in self.observation_space.spaces}


class Two(MultiAgentEnv):
    """Two such walks, whose agents act in turn."""

    agents = ("one", "two")

    def __init__(self, *features):
        self.fields = {name: Field(*features) for name in self.agents}
        self.observation_spaces = {name: env.observation_space for name, env in self.fields.items()}
        self.action_spaces = {name: env.action_space for name, env in self.fields.items()}

    def reset(self, seed):
        self.turn = 0
        for number, env in enumerate(self.fields.values()):
            env.reset(seed=seed + number)
        return Round({"one": self.fields["one"].seen()})

    def step(self, actions):
        ((name, action),) = actions.items()
        _, reward, *_ = self.fields[name].step(action)
        self.turn += 1
        if self.turn == 12:
            return Round({}, {name: reward}, {}, {each: env.seen() for each, env in self.fields.items()})
        following = self.agents[self.turn % 2]
        return Round({following: self.fields[following].seen()}, {name: reward})


class TwoConfig(PluginConfig):
    name: str = "two"
    features: tuple[str, ...] = ()


class TwoSource(Plugin):
    """An env source of two such walks."""

    Config = TwoConfig

    @hookimpl
    def make_agents_env(self, config: TwoConfig, seed: int, index: int) -> MultiAgentEnv:
        return Two(*(each for each in pairs.FEATURES if each.name in config.features))


def build(quick, first, second):
    """A run with two features: of DQN, which has most of them, or of an algorithm with several learners."""
    features, overrides = (first, second), dict(SMALL)
    algorithm = "dqn" if LEARNERS not in features or PRIORITIES in features else "ppo" if MEMORY in features else "sac"
    if algorithm == "ppo":
        overrides = {key: value for key, value in overrides.items() if "buffer" not in key}
    if algorithm == "sac":
        overrides["algorithm.critic_hidden"] = [8]
    for each in features:
        overrides |= SETTINGS.get(each, {})
    if FRAMES in features:
        overrides |= {"model.name": "template", "model.image_features": 8}
    if MEMORY in features and algorithm == "dqn":
        overrides["algorithm.sequence_length"] = 4
    runner = {"name": "local", "workers": 2} if WORKERS in features else "dev"
    overrides = {key: value for key, value in overrides.items() if not key.startswith("runner")}
    if AGENTS in features:
        return quick(
            TwoSource, algorithm, overrides | {"env.features": [each.name for each in features]}, runner=runner
        )
    return quick(partial(Field, *features), algorithm, overrides, runner=runner)


SLOW = {WORKERS, LEARNERS, FRAMES}
CASES = [
    pytest.param(
        first, second, id=f"{first.name}, {second.name}", marks=[pytest.mark.slow] * bool(SLOW & {first, second})
    )
    for first, second, _ in pairs.pairs()
]


@pytest.mark.parametrize(("first", "second"), CASES)
def test_a_pair_trains_or_is_refused_with_its_reason(quick, first, second):
    pair = frozenset({first, second})
    context = build(quick, first, second)
    if pair in REFUSED:
        with pytest.raises(ConfigError, match=REFUSED[pair]) as caught:
            context.train()
        assert caught.value.where in (first.setting, second.setting)
        return
    if pair in OF_NO_ALGORITHM:
        with pytest.raises(ConfigError, match="supports only one learner"):
            context.train()
        return
    summary = context.train()
    assert (summary.outcome, summary.updates) == ("finished", 4)
    collector = context.run.algorithm.kept["collector"]
    if WORKERS in pair and LEARNERS not in pair:
        assert collector.on_workers == (pair not in IN_LOCKSTEP)
    if FRAMES in pair and LEARNERS not in pair:
        assert bool(collector.replay.specs and getattr(collector.replay, "frames", None)) == (pair not in STORED_WHOLE)


def test_the_table_names_features_that_exist():
    known = {frozenset({first, second}) for first, second, _ in pairs.pairs()}
    assert {*REFUSED, *OF_NO_ALGORITHM, *IN_LOCKSTEP, *STORED_WHOLE} <= known
    assert len(known) == 45
