"""Reptile (Nichol et al., arXiv 1803.02999), as an author outside of Maze writes it: it moves to where tasks lead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from maze_onpolicy.collect.parameter_arrays import state_arrays
from maze_onpolicy.collect.task_rollouts import TaskJob, TaskRollouts
from maze_onpolicy.learn.parameters import with_parameters
from maze_onpolicy.tasks import Tasks, TaskValues

from maze_core import Algorithm, AlgorithmConfig, Batch, Loss, Policy, Run, hookimpl
from maze_core.base.seeding import Purpose, generator
from maze_core.collect.pools.workers import OrderedResults
from maze_core.data.batch import OwnStep
from maze_core.data.rollout import Rollout

_STREAM = 90_210


class ReptileConfig(AlgorithmConfig):
    name: str = "reptile"
    lr: float = 1.0
    epoch_length: int = 2
    n_rollout_steps: int = 5
    tasks: TaskValues = None
    inner_lr: float = 0.5
    inner_steps: int = 2
    way: float = 0.3


class Reptile(Algorithm):
    """After some steps of plain policy gradient on a task, goes a part of the way there."""

    Config = ReptileConfig
    config: ReptileConfig
    needs_critic = False

    def setup(self, run: Run) -> None:
        config, self._run = self.config, run
        self._tasks = Tasks(config.tasks, run.spare_env())
        player = TaskRollouts(
            run.env_builder("training"),
            run.policy,
            run.seed,
            _STREAM,
            num_envs=8,
            steps=config.n_rollout_steps,
            by_argument=config.tasks is not None,
        )
        player.check(self._tasks.draw(generator(run.seed, Purpose.PLUGIN, _STREAM)))
        self._results = OrderedResults(run.workers(player))

    def batches(self) -> Iterator[OwnStep]:
        task = self._tasks.draw(generator(self._run.seed, Purpose.PLUGIN, _STREAM, self._run.updates))
        there = dict(self._run.policy.named_parameters())
        for number in range(self.config.inner_steps):
            there = self._adapted(task, there, number)
        yield OwnStep(lambda: self._go(there), list(self._run.policy.parameters()))

    def _adapted(self, task: Any, parameters: Mapping[str, torch.Tensor], number: int) -> dict[str, torch.Tensor]:
        run, policy = self._run, self._run.policy
        arrays = {name: value.numpy(force=True).copy() for name, value in parameters.items()}
        job = TaskJob(task, {**state_arrays(policy), **arrays}, (run.updates, number))
        rollout: Rollout = next(iter(self._results.each([job])))
        run.count_env_steps(rollout.rewards.size)
        run.statistics.add(rollout.episodes)
        obs = {key: torch.from_numpy(leaf[:-1].reshape(-1, *leaf.shape[2:])) for key, leaf in rollout.obs.items()}
        actions = {key: torch.from_numpy(leaf.reshape(-1, *leaf.shape[2:])) for key, leaf in rollout.actions.items()}
        gains = torch.from_numpy((rollout.rewards - rollout.rewards.mean()).reshape(-1))
        leaves = {name: value.detach().clone().requires_grad_() for name, value in parameters.items()}
        log_prob = with_parameters(policy, leaves, lambda: policy.distribution(obs).log_prob(actions))
        slopes = torch.autograd.grad((log_prob * gains).mean(), list(leaves.values()))
        return {
            name: (value + self.config.inner_lr * slope).detach()
            for (name, value), slope in zip(leaves.items(), slopes, strict=True)
        }

    def _go(self, there: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            for name, parameter in self._run.policy.named_parameters():
                parameter += self.config.way * (there[name] - parameter)
        return {}

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        raise AssertionError("its only steps are its own")


class Levels(gymnasium.Env[np.ndarray, np.ndarray]):
    """Five steps; what is near the level, which nobody sees, is paid. Levels lie around 2."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Box(-4, 4, (1,), np.float32)

    def __init__(self, level: float = 2.0) -> None:
        self.level = level

    def sample_task(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(1.5, 2.5))

    def set_task(self, task: float) -> None:
        self.level = task

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, Any]:
        super().reset(seed=seed)
        self._left = 5
        return np.ones(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        reward = -abs(float(action[0]) - self.level)
        return np.full(1, self._left / 5, np.float32), reward, self._left == 0, False, {}
