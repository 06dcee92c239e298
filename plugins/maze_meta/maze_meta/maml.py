"""Model-agnostic meta-learning (Finn et al., arXiv 1703.03400): initial parameters from which one step adapts."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from maze_onpolicy import TaskJob, TaskRollouts, Tasks, clipped_surrogate, normalized, state_arrays, with_parameters
from torch import Tensor

from maze_core import (
    Algorithm,
    Batch,
    Loss,
    Policy,
    Purpose,
    Rollout,
    Run,
    generator,
    hookimpl,
    map_tree,
    take_rows,
    to_tensors,
)
from maze_core.base.free_ram import check_ram
from maze_core.base.tree import flat_rows
from maze_core.collect.pools.workers import OrderedResults
from maze_core.data.batch import joined
from maze_core.envs.spaces import allocated_bytes, space_specs
from maze_meta.baseline import advantages
from maze_meta.config import MAMLConfig

Parameters = Mapping[str, Tensor]
STREAM = zlib.crc32(b"maze-meta")
"""The first number of the random streams of this distribution."""
_COPIES = 3
# Of an update's observations: in rollouts, in the rows of tasks, and in the batch.


class MAML(Algorithm):
    """Model-agnostic meta-learning, on-policy, for every action space: parameters that one gradient step adapts."""

    Config = MAMLConfig
    config: MAMLConfig
    needs_critic = False
    calls = ("compute_loss", "change_rollout")
    columns: ClassVar[Mapping[str, str]] = {"train/adapted_return_mean": "adapted", "loss/policy": "policy"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"log_std_init": -0.25}}

    def setup(self, run: Run) -> None:
        """Find the tasks and start the workers."""
        config, self._run = self.config, run
        run.hooks.announce("change_rollout")
        rows = 2 * config.tasks_per_update * config.rollouts_per_task, config.n_rollout_steps + 1
        needed = _COPIES * allocated_bytes(space_specs(run.observation_space, "observation"), rows)
        check_ram(needed, config.n_rollout_steps, "algorithm.n_rollout_steps", what="steps of a rollout")
        self._tasks, player = Tasks(config.tasks, run.spare_env()), player_of(run, config)
        player.check(self._tasks.draw(generator(run.seed, Purpose.PLUGIN, STREAM, 3)))
        self._workers = run.workers(player)
        self._results = OrderedResults(self._workers)

    def batches(self) -> Iterator[Batch]:
        """Play rollouts of some tasks before and after the inner step; yield the rows of all, several times."""
        config, run = self.config, self._run
        rng = generator(run.seed, Purpose.PLUGIN, STREAM, 0, run.updates)
        tasks = [self._tasks.draw(rng) for _ in range(config.tasks_per_update)]
        initial = dict(run.policy.named_parameters())
        before = self._play(tasks, [initial] * len(tasks), 0)
        run.statistics.add(episode for rollout in before for episode in rollout.episodes)
        first = [rows_of(rollout, run.policy, initial, config) for rollout in before]
        adapted = [map_tree(Tensor.detach, self._adapted(run.policy, initial, rows, False)) for rows in first]
        after = self._play(tasks, adapted, 1)
        run.record(_metrics(before, after))
        second = [rows_of(each, run.policy, own, config) for each, own in zip(after, adapted, strict=True)]
        batch = joined([rows for pair in zip(first, second, strict=True) for rows in pair])
        for _ in range(config.n_optimization_epochs):
            yield batch
        if run.policy.normalizer is not None:
            run.policy.normalizer.update(batch.obs)

    def score(self, metrics: Mapping[str, float]) -> float:
        """Return the mean return after the inner step: the best initial parameters are those that adapt best."""
        return metrics.get("train/adapted_return_mean", math.nan)

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the mean of the adapted policies' losses, as a function of the initial parameters.

        The rows of a batch lie task by task, first those before the inner step.
        """
        config = self.config
        initial = dict(policy.named_parameters())
        size = len(batch) // (2 * config.tasks_per_update)
        parts = [batch.map(lambda leaf, at=at: leaf[at : at + size]) for at in range(0, len(batch), size)]  # type: ignore[misc]
        losses, divergences = [], []
        for first, second in zip(parts[::2], parts[1::2], strict=True):
            adapted = self._adapted(policy, initial, first, config.second_order)
            log_ratio = log_probs(policy, adapted, second) - second.extra["log_prob"]
            losses.append(clipped_surrogate(log_ratio.exp(), second.extra["advantage"], config.clip_range).mean())
            divergences.append((log_ratio.detach().exp() - 1 - log_ratio.detach()).mean())
        total = torch.stack(losses).mean()
        return Loss(total, {"policy": total.detach(), "kl": torch.stack(divergences).mean()})

    def _play(self, tasks: Sequence[Any], parameters: Sequence[Parameters], phase: int) -> list[Rollout]:
        """Return a rollout of each task with its parameters, as plugins have changed it."""
        run, whole = self._run, state_arrays(self._run.policy)
        named = [{name: value.numpy(force=True).copy() for name, value in own.items()} for own in parameters]
        jobs = [
            TaskJob(task, {**whole, **own}, (run.updates, n, phase))
            for n, (task, own) in enumerate(zip(tasks, named, strict=True))
        ]
        rollouts: list[Rollout] = []
        for rollout in self._results.each(jobs):
            run.count_env_steps(rollout.rewards.size)
            run.hooks.change_rollout(run, rollout)
            rollouts.append(rollout)
        return rollouts

    def _adapted(self, policy: Policy, initial: Parameters, rows: Batch, second_order: bool) -> Parameters:
        return adapted_parameters(policy, initial, rows, self.config.inner_lr, second_order=second_order)


def player_of(run: Run, config: MAMLConfig) -> TaskRollouts:
    """Return what plays the rollouts of a run."""
    sizes = config.rollouts_per_task, config.n_rollout_steps
    return TaskRollouts(
        run.env_builder("training"), run.policy, run.seed, STREAM, *sizes, by_argument=config.tasks is not None
    )


def rows_of(rollout: Rollout, policy: Policy, parameters: Parameters, config: MAMLConfig) -> Batch:
    """Return the rows of a rollout, with advantages, and log-probabilities by the parameters that acted."""
    device = next(policy.parameters()).device
    gains = torch.from_numpy(advantages(rollout, config.gamma, config.gae_lambda).reshape(-1)).to(device)
    obs = to_tensors(flat_rows(take_rows(rollout.obs, np.s_[:-1])), device)
    rows = Batch(obs, to_tensors(flat_rows(rollout.actions), device))
    with torch.no_grad():
        log_prob = log_probs(policy, parameters, rows)
    gains = normalized(gains) if config.normalize_advantages else gains
    rows.extra = {**to_tensors(flat_rows(rollout.extra), device), "advantage": gains, "log_prob": log_prob}
    return rows


def adapted_parameters(
    policy: Policy, initial: Parameters, rows: Batch, inner_lr: float, *, second_order: bool
) -> Parameters:
    """Return the parameters after one step along the policy gradient of some rows, differentiable in `initial`.

    The gradient is that of the probability ratio to the policy that acted, whose second derivative is that of the
    expected return, unlike that of the log-probability. `second_order` False: the step counts as a constant.
    """
    learning = {name: value for name, value in initial.items() if value.requires_grad}
    ratio = (log_probs(policy, initial, rows) - rows.extra["log_prob"]).exp()
    loss = -(ratio * rows.extra["advantage"]).mean()
    slopes = torch.autograd.grad(
        loss, list(learning.values()), create_graph=second_order, allow_unused=True, materialize_grads=True
    )
    moved = {name: value - inner_lr * slope for (name, value), slope in zip(learning.items(), slopes, strict=True)}
    return {**initial, **moved}


def log_probs(policy: Policy, parameters: Parameters, rows: Batch) -> Tensor:
    """Return the log-probabilities [B] of the actions of some rows by a policy with other parameters."""
    return with_parameters(policy, parameters, lambda: policy.distribution(rows.obs).log_prob(rows.actions))


def _metrics(before: Sequence[Rollout], after: Sequence[Rollout]) -> dict[str, float]:
    """Return what the inner step adds to the reward of a step, and the mean return of the episodes after it, if any."""
    gained = np.mean([rollout.rewards for rollout in after]) - np.mean([rollout.rewards for rollout in before])
    adapted = {} if math.isnan(mean := mean_return(after)) else {"train/adapted_return_mean": mean}
    return {"train/adaptation_gain": float(gained), **adapted}


def mean_return(rollouts: Sequence[Rollout]) -> float:
    """Return that of the episodes that ended in some rollouts; nan where none did."""
    returns = [episode.episode_return for rollout in rollouts for episode in rollout.episodes]
    return float(np.mean(returns)) if returns else math.nan
