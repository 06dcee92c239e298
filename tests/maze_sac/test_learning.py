"""SAC learns: small problems with known answers in seconds, CartPole with its preset."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_core.config.load import assemble
from maze_core.testing.probes import Bandit, Steady
from maze_core.training import api

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


@pytest.mark.parametrize("mixed", [False, True])
def test_a_throw_is_learnt(sac, mixed):
    context = sac(lambda: Throw(mixed), FAST | {"algorithm.epoch_length": 600, "evaluation.n_episodes": 50})
    summary = context.train()
    assert summary.final_evaluation["eval/return_mean"] > -0.02


def test_a_bandit_is_learnt_with_the_target_entropy(sac):
    context = sac(Bandit, FAST | {"algorithm.target_entropy_multiplier": 0.5, "algorithm.n_epochs": 4})
    summary = context.train()
    assert summary.final_evaluation["eval/return_mean"] == 1
    with torch.no_grad():
        entropy = context.policy.distribution({"observation": torch.ones(1, 1)}).entropy()
    assert entropy.item() == pytest.approx(0.5 * 0.98 * np.log(3), abs=0.15)


def test_a_time_limit_is_no_end(sac):
    """Trap 2, for SAC: the value of a reward of 1 for ever is 1 / (1 - gamma), whatever cuts the episodes."""
    values = {
        "algorithm.gamma": 0.8,
        "algorithm.entropy_tuning": False,
        "algorithm.entropy_coef": 0.0,
        "algorithm.tau": 0.05,
        "algorithm.n_epochs": 2,
    }
    context = sac(Steady, FAST | values)
    context.train()
    critics = context.run.algorithm._critics
    value = critics.values(critics.features({"observation": torch.ones(1, 1)}), None)
    assert value.mean().item() == pytest.approx(5.0, abs=0.3)


@pytest.mark.learning
def test_pendulum_swings_up_with_its_preset(tmp_path):
    flags = {"seed": 1, "steps": 5000, "callbacks.console": None}
    summary = api.train(assemble("sac", "Pendulum-v1", flags=flags), tmp_path / "run")
    assert summary.final_evaluation["eval/return_mean"] >= -350
