"""The kit's own algorithm, for runs that test other plugins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import torch
from maze_offpolicy import ReplayCollector
from maze_onpolicy import RolloutCollector, advantage_rows, cost_modules, rollout_costs

from maze_core import Algorithm, AlgorithmConfig, Batch, Loss, hookimpl
from maze_core.plugins.config import params

if TYPE_CHECKING:
    from torch import nn

    from maze_core import Policy, Run


class ReferenceConfig(AlgorithmConfig):
    """The parameters of the reference algorithm."""

    n_rollout_steps: params.RolloutSteps = 8
    num_envs: params.TrainingEnvironments = 2
    lr: params.LearningRate = 1e-3


class Reference(Algorithm):
    """A policy gradient with a critic; each batch is a whole rollout."""

    Config: ClassVar[type[AlgorithmConfig]] = ReferenceConfig
    supports_actors = True
    supports_agents = True

    def setup_loss(self, run: Run) -> None:
        """Build the critics of costs, where a plugin has constraints."""
        self._costs = rollout_costs(run)

    def modules(self) -> dict[str, nn.Module]:
        """Return these critics."""
        return cost_modules(self._costs)

    def setup(self, run: Run) -> None:
        """Build the collector."""
        self._run = run
        config = self.config
        self._collector = self.keep("collector", RolloutCollector(run, config.n_rollout_steps, config.num_envs))

    def batches(self) -> Iterator[Batch]:
        """Yield one rollout as the only batch."""
        run, costs = self._run, self._costs
        rows, _ = advantage_rows(run.policy, self._collector.collect(), 0.9, 1.0, run.device, costs=costs)
        if len(rows):
            yield rows

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the sum of the policy's and the critic's loss."""
        distribution, value = policy(batch.obs)
        policy_loss = -(distribution.log_prob(batch.actions) * batch.extra["advantage"]).mean()
        loss = Loss(policy_loss + (value - batch.extra["target"]).square().mean())
        return loss if self._costs is None else self._costs.loss.added_to(loss, policy, batch)


class ReplayedConfig(ReferenceConfig):
    """The parameters of the reference algorithm with a replay buffer."""

    n_rollout_steps: params.RolloutSteps = 2


class Replayed(Algorithm):
    """Learns values, and the actions that were better than expected, from a replay buffer."""

    Config: ClassVar[type[AlgorithmConfig]] = ReplayedConfig
    supports_agents = True

    def setup(self, run: Run) -> None:
        """Build the collector."""
        config = self.config
        self._run = run
        collector = ReplayCollector(run, config.n_rollout_steps, config.num_envs, 1000, initial_steps=16)
        self._collector = self.keep("collector", collector)

    def batches(self) -> Iterator[Batch]:
        """Step the environments; yield a batch of the replay buffer."""
        self._collector.collect()
        yield self._collector.sample(8, 0.9)

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the squared error of the values, and the loss of the actions, weighted by it."""
        distribution, value = policy(batch.obs)
        with torch.no_grad():
            target = batch.extra["reward"] + batch.extra["discount"] * policy.value(batch.next_obs)
        error = target - value
        likelihood = distribution.log_prob(batch.actions)
        return Loss(error.square().mean() - (likelihood * error.detach().clamp(-1, 1)).mean())
