"""A corridor whose first observation says which way to go at its end: only a policy with memory can know."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_core.run.context import RunContext

LENGTH = 8
PARTS = {
    "ppo": ({"algorithm.sequence_length": LENGTH, "algorithm.batch_size": 256}, 8000),
    "dqn": (
        {
            "algorithm.num_envs": 8,
            "algorithm.n_rollout_steps": 2,
            "algorithm.batch_size": 400,
            "algorithm.epoch_length": 200,
            "algorithm.lr": 3e-3,
            "algorithm.double": True,
            "algorithm.target_update_interval": 50,
            "algorithm.epsilon.end": 8000,
            "model.hidden": [32],
            "model.memory_size": 32,
        },
        5000,
    ),
}
"""Parameters and environment steps."""


class Corridor(gymnasium.Env):
    """The cue is the first of eight observations; the last action must repeat it for a reward of 1."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cue, self.steps = int(self.np_random.integers(2)), 0
        return np.array([2 * self.cue - 1, 0], np.float32), {}

    def step(self, action):
        self.steps += 1
        over = self.steps == LENGTH
        reward = float(action == self.cue) if over else 0.0
        return np.array([0, self.steps == LENGTH - 1], np.float32), reward, over, False, {}


def trained(folder, algorithm, memory, values, steps=None, epochs=None):
    overrides = {"model.memory": memory, "evaluation.n_episodes": 100, "model.normalize_observations": False, **values}
    parts = {"env": Corridor, "algorithm": algorithm, "overrides": overrides, "seed": 1, "silent": True}
    context = RunContext(**parts, steps=steps, epochs=epochs, run_dir=folder)
    return context, context.train().final_evaluation["eval/return_mean"]


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "memory"), [("ppo", "gru"), ("dqn", "linear")])
def test_a_policy_with_memory_learns_what_one_without_cannot(tmp_path, algorithm, memory):
    values, steps = PARTS[algorithm]
    context, score = trained(tmp_path / memory, algorithm, memory, values, steps)
    assert score >= 0.95
    if algorithm == "ppo":
        _, without = trained(tmp_path / "none", algorithm, "none", {}, steps)
        assert without < 0.75
        context.rollout(60, record=tmp_path / "recording", seed=3)
        data = {"algorithm.dataset": str(tmp_path / "recording"), "model.critic": "none"}
        _, cloned = trained(tmp_path / "cloned", "bc", "gru", data, epochs=60)
        assert cloned >= 0.95
    context.close()
