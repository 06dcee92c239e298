"""PQN: what a batch consists of, the values it learns, and that layers are normalised."""

from __future__ import annotations

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk

from maze_core.plugins.config.assembly import assemble


def test_every_row_of_a_rollout_comes_once_in_each_pass(learn):
    sizes = {"algorithm.n_rollout_steps": 7, "algorithm.num_envs": 3, "algorithm.n_optimization_epochs": 2}
    context = learn(SeededWalk, "pqn", {**sizes, "algorithm.batch_size": 8})
    seen, compute = [], context.run.hooks.compute_loss
    context.run.hooks.compute_loss = lambda policy, batch: (seen.append(batch), compute(policy, batch))[1]
    context.train()
    assert context.run.env_steps == 10 * 7 * 3
    assert [len(batch) for batch in seen[:6]] == [8, 8, 5] * 2
    first, second = (torch.cat([batch.extra["target"] for batch in seen[i : i + 3]]).sort()[0] for i in (0, 3))
    assert torch.equal(first, second), "the returns are computed once"
    assert not torch.equal(seen[0].extra["target"], seen[3].extra["target"])


def test_the_model_normalises_its_layers_unless_told_otherwise():
    assert assemble("pqn", "X-v0", "none").model.layer_norm
    assert not assemble("dqn", "X-v0", "none").model.layer_norm
    assert not assemble("pqn", "X-v0", "none", overrides=["model.layer_norm=false"]).model.layer_norm


FAST = {
    "algorithm.lr": 0.003,
    "algorithm.lr_schedule": "constant",
    "algorithm.epoch_length": 40,
    "algorithm.n_epochs": 1,
    "algorithm.batch_size": 32,
    "algorithm.n_rollout_steps": 16,
    "algorithm.num_envs": 8,
    "algorithm.epsilon.end": 3000,
    "model.hidden": [32],
}


class Stairs(gymnasium.Env):
    """Down ends the episode at once and is worth 0.3; up is worth 1 after five steps. Values are known."""

    observation_space = spaces.Box(0, 1, (6,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = 0
        return self._seen(), {}

    def step(self, action):
        self._place += int(action)
        top = self._place == 5
        return self._seen(), 1.0 if top else 0.3 * (1 - int(action)), top or not action, False, {}

    def _seen(self):
        return np.eye(6, dtype=np.float32)[self._place]


def test_values_of_stairs(learn):
    context = learn(Stairs, "pqn", FAST | {"algorithm.gamma": 0.9, "algorithm.epoch_length": 80})
    summary = context.train()
    assert summary.final_evaluation["eval/return_mean"] == 1
    with torch.no_grad():
        atoms = context.policy.atoms({"observation": torch.eye(6)[:5]})[..., 0]
    expected = [[0.3, 0.9 ** (4 - place)] for place in range(5)]
    np.testing.assert_allclose(atoms, expected, atol=0.1)
