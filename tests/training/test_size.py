"""A run says before it begins what is unusually large."""

from types import SimpleNamespace

import numpy as np
from gymnasium import spaces
from torch import nn

from maze_core.run.notes import size_notes

PISTON = spaces.Box(0, 255, (457, 120, 3), np.uint8)


def notes(policy, space=PISTON, steps=2000, rows=256, agents=20):
    config = SimpleNamespace(steps=steps, algorithm=SimpleNamespace(n_rollout_steps=rows, num_envs=8))
    return list(size_notes(config, policy, space, spaces.Discrete(2), agents))


def test_pistonball():
    large, long = notes(nn.Linear(20_000, 600))
    assert "12,000,600 parameters, as observation 'observation' is of shape (457, 120, 3)" in large
    assert "--wrappers gray,resize" in large
    assert "one rollout takes 40,960 steps of 20 agents, more than all 2,000" in long
    assert "--set algorithm.n_rollout_steps=12" in long


def test_usual_sizes_are_not_mentioned():
    assert notes(nn.Linear(2, 2), spaces.Box(0, 255, (84, 84, 4), np.uint8), steps=3000, rows=256, agents=1) == []
    assert notes(nn.Linear(20_000, 600), spaces.Box(0, 1, (9,)), steps=None) == []
