"""An algorithm of the kit's own, for runs that other plugins take part in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from maze_core.config import params
from maze_core.config.run import AlgorithmConfig
from maze_core.data.batch import Batch, Loss
from maze_core.plugins.hookspecs import hookimpl
from maze_core.training.algorithm import Algorithm
from maze_core.training.on_policy import advantage_rows
from maze_core.training.rollout_collector import RolloutCollector

if TYPE_CHECKING:
    from maze_core.models.policy import Policy
    from maze_core.training.run import Run


class ReferenceConfig(AlgorithmConfig):
    """The parameters of the reference algorithm."""

    n_rollout_steps: params.RolloutSteps = 8
    lr: params.LearningRate = 1e-3


class Reference(Algorithm):
    """A policy gradient with a critic, on whole rollouts."""

    Config: ClassVar[type[AlgorithmConfig]] = ReferenceConfig

    def setup(self, run: Run) -> None:
        """Build the collector."""
        self._run = run
        self._collector = RolloutCollector(run, self.config.n_rollout_steps)

    def batches(self) -> Iterator[Batch]:
        """A rollout, once."""
        rows, _ = advantage_rows(self._run.policy, self._collector.collect(), 0.9, 1.0, self._run.device)
        if len(rows):
            yield rows

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """The policy's loss and the critic's."""
        distribution, value = policy(batch.obs)
        policy_loss = -(distribution.log_prob(batch.actions) * batch.extra["advantage"]).mean()
        return Loss(policy_loss + (value - batch.extra["target"]).square().mean())

    def state(self) -> dict[str, Any]:
        """Where the environments stand."""
        return {"collector": self._collector.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up a state that `state` gave."""
        self._collector.load_state(state["collector"])
