"""SAC learns small problems with known answers in seconds."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.probes import Bandit, Steady

FAST = {
    "algorithm.lr": 0.003,
    "algorithm.entropy_coef_lr": 0.003,
    "algorithm.epoch_length": 300,
    "algorithm.n_epochs": 1,
    "algorithm.batch_size": 64,
    "algorithm.initial_buffer_size": 100,
    "algorithm.replay_buffer_size": 2000,
    "model.hidden": [32, 32],
}


class Throw(gymnasium.Env):
    """One step: hit the target shown, between -1 and 1, by a force from -5 to 5; `mixed`: with the right hand."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, mixed):
        force = spaces.Box(-5, 5, (1,), np.float32)
        self.action_space = spaces.Dict({"force": force, "hand": spaces.Discrete(3)}) if mixed else force
        self._mixed = mixed

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._target = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self._target, {}

    def step(self, action):
        force = action["force"] if self._mixed else action
        reward = -float((force[0] / 5 - 0.8 * self._target[0]) ** 2)
        if self._mixed:
            reward -= 0.5 * (action["hand"] != (2 if self._target[0] > 0 else 0))
        return self._target, reward, True, False, {}


@pytest.mark.parametrize("mixed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_throw_is_learnt(sac, mixed):
    context = sac(lambda: Throw(mixed), FAST | {"algorithm.epoch_length": 600, "evaluation.n_episodes": 50})
    summary = context.train()
    assert summary.final_evaluation["eval/return_mean"] > -0.02


@pytest.mark.slow
def test_a_bandit_is_learnt_with_the_target_entropy(sac):
    context = sac(Bandit, FAST | {"algorithm.target_entropy_multiplier": 0.5, "algorithm.n_epochs": 4})
    summary = context.train()
    assert summary.final_evaluation["eval/return_mean"] == 1
    with torch.no_grad():
        entropy = context.policy.distribution({"observation": torch.ones(1, 1)}).entropy()
    assert entropy.item() == pytest.approx(0.5 * 0.98 * np.log(3), abs=0.15)


class SteadyWith(Steady):
    """A reward of 1 for ever, whatever is done."""

    def __init__(self, action_space):
        super().__init__()
        self.action_space = action_space


EVERLASTING = {
    "dict": spaces.Dict({"a": spaces.Discrete(4), "b": spaces.Discrete(4)}),
    "mixed": spaces.Dict({"a": spaces.MultiDiscrete([3] * 4), "b": spaces.Box(-1, 1), "c": spaces.MultiBinary(4)}),
}


@pytest.mark.parametrize(
    "name",
    [each if each == "mixed" else pytest.param(each, marks=pytest.mark.slow) for each in EVERLASTING],
)
def test_a_reward_of_1_for_ever_is_worth_its_discounted_sum(sac, name):
    """A time limit is no end, and the lesser twin lowers the value of no action space for its number of members."""
    values = {
        "algorithm.gamma": 0.9,
        "algorithm.entropy_tuning": False,
        "algorithm.entropy_coef": 0.0,
        "algorithm.tau": 0.1,
        "algorithm.epoch_length": 400,
    }
    context = sac(lambda: SteadyWith(EVERLASTING[name]), FAST | values)
    context.train()
    algorithm = context.run.algorithm
    batch = algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 200, 0.9)
    critics, actions = algorithm.critics, algorithm.actions
    value = critics.values(critics.features(batch.obs), actions.canonical(batch.actions))
    assert actions.chosen(value, batch.actions).mean(-1).tolist() == pytest.approx([10, 10], abs=0.5)


class Switchboard(gymnasium.Env):
    """16 switches, 0.1 for every step of 50; the first switch ends the episode."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.MultiBinary(16)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return np.ones(1, np.float32), {}

    def step(self, action):
        self._steps += 1
        over = bool(action[0])
        return np.ones(1, np.float32), 0.1 * (not over), over, self._steps >= 50, {}


@pytest.mark.slow
def test_many_switches_do_not_make_the_end_look_better(sac):
    """Who undervalues what goes on learns to end the episode at once, which is worth exactly 0."""
    values = {"algorithm.tau": 0.1, "algorithm.target_entropy_multiplier": 0.1, "algorithm.epoch_length": 800}
    context = sac(Switchboard, FAST | values)
    assert context.train().final_evaluation["eval/return_mean"] == pytest.approx(5.0)
