"""Environments that exist only vectorised train: registered ones, classes that are named, and classes from Python."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from maze_core.base.errors import ConfigError


class Walks(VectorEnv):
    """Points on a line, all stepped at once; an episode ends after `length` steps."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs, length=6):
        self.num_envs, self.length = num_envs, length
        self.single_observation_space = gymnasium.spaces.Box(-20, 20, (2,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.integers(-3, 4, self.num_envs).astype(np.float32)
        self.steps, self.over = np.zeros(self.num_envs), np.zeros(self.num_envs, bool)
        return self.seen(), {}

    def seen(self):
        return np.stack([self.at, self.steps], -1).astype(np.float32)

    def step(self, actions):
        begins = self.over
        self.at = np.where(begins, 0, self.at + 2 * actions - 1)
        self.steps = np.where(begins, 0, self.steps + 1)
        self.over = self.steps >= self.length
        return self.seen(), np.where(begins, 0.0, self.at), self.over, np.zeros(self.num_envs, bool), {}


gymnasium.register("tests/Walks-v0", vector_entry_point=Walks)
HERE = "tests.maze_foreign_envs.test_vectorised_alone"


def of_function():
    return Walks(3)


@pytest.mark.parametrize(
    ("env", "algorithm", "runner"),
    [("tests/Walks-v0", "ppo", "local"), (f"{HERE}:Walks", "dqn", "local"), (Walks, "ppo", "dev")],
    ids=["registered", "named", "class"],
)
def test_they_train_and_resume(quick, env, algorithm, runner, monkeypatch):
    built, init = [], Walks.__init__

    def counted(self, num_envs, **arguments):
        built.append(num_envs)
        init(self, num_envs, **arguments)

    monkeypatch.setattr(Walks, "__init__", counted)
    values = {"algorithm.num_envs": 3, "runner.name": runner}
    values |= {"algorithm.initial_buffer_size": 30, "algorithm.batch_size": 8} if algorithm == "dqn" else {}
    context = quick(env, algorithm, values)
    context.train()
    assert 3 in built
    assert context.evaluate()["eval/length_median"] == 6
    context.close()
    more = quick(env, algorithm, {**values, "algorithm.n_epochs": 3})
    more.resume(context.run_dir)
    assert more.run.epoch == 3
    assert more.make_env().reset(seed=1)[0].shape == (2,)


def test_arguments_and_limits(quick):
    context = quick({"name": "gymnasium", "id": f"{HERE}:Walks", "kwargs": {"length": 4}}, "ppo")
    assert context.evaluate()["eval/length_median"] == 4
    limited = quick({"name": "gymnasium", "id": f"{HERE}:Walks", "max_episode_steps": 4}, "ppo")
    with pytest.raises(ConfigError, match=r"max_episode_steps: the vectorised form of .* takes no time limit"):
        limited.train()


def test_others_are_told_how(quick):
    with pytest.raises(ConfigError, match=r"Walks is already vectorised.*\n.*num_envs.*vector_entry_point=make"):
        quick(of_function, "ppo").train()
