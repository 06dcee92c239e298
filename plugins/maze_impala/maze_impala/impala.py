"""IMPALA: actors and a learner that do not wait for each other (Espeholt et al., arXiv 1802.01561)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from maze_onpolicy import CriticBurnIn, actor_critic_loss

from maze_core import Algorithm, Batch, Loss, hookimpl
from maze_core.data.batch import BatchShare
from maze_impala.config import ActorsConfig, IMPALAConfig
from maze_impala.correction import corrected, explained, row_weights
from maze_impala.stream import TrajectoryStream
from maze_impala.trajectories import shares_of_trajectories

if TYPE_CHECKING:
    from maze_core import Policy, Run


class IMPALA(Algorithm):
    """Importance weighted actor-learner architecture, for every action space."""

    Config: ClassVar[type[ActorsConfig]] = IMPALAConfig
    config: ActorsConfig
    needs_critic = True
    supports_memory = True
    supports_actors = True
    supports_agents = True
    supports_learners = True
    calls = ("compute_loss", "change_rollout")
    columns: ClassVar[Mapping[str, str]] = {"loss/policy": "policy", "loss/value": "value", "loss/entropy": "entropy"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"normalize_observations": True, "log_std_init": -1.0}
    }

    def setup_loss(self, run: Run) -> None:
        """Prepare the burn-in of the critic."""
        self._run = run
        self._burn_in = CriticBurnIn(run, self.config.critic_burn_in_epochs)

    def setup(self, run: Run) -> None:
        """Start the actors."""
        self._stream = TrajectoryStream(run, self.config)

    def batches(self) -> Iterator[Batch]:
        """Learn from the next trajectories; the normaliser follows."""
        run = self._run
        batch = self._stream.next_batch()
        yield from self._passes(batch)
        if run.policy.normalizer is not None and not self._burn_in.active:
            run.policy.normalizer.update(batch.obs, batch.extra["weight"])

    def _passes(self, batch: Batch) -> Iterator[Batch]:
        """Yield the trajectories once."""
        yield batch
        if self.row_results:
            self._run.record(explained(**self.row_results))

    def shares(self, batch: Batch, count: int) -> list[BatchShare]:
        """Return shares of whole trajectories: V-trace looks ahead in them."""
        return shares_of_trajectories(batch, count, self.config.n_rollout_steps)

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return V-trace policy gradient, the critic's squared error to the V-trace targets, and entropy bonus."""
        distribution, value = self._burn_in.forward(policy, batch.obs, batch.sequences)
        log_prob = distribution.log_prob(batch.actions)
        log_rho = (log_prob - batch.extra["log_prob"]).detach()
        target, advantage = corrected(self.config, log_rho, value.detach(), batch.extra)
        self.row_results = {"value": value.detach(), "target": target, "weight": batch.extra["weight"]}
        weight = row_weights(batch.extra)
        policy_loss = log_prob * -advantage
        critic_loss = (value - target).square()
        rho = log_rho.exp() @ weight
        return actor_critic_loss(
            self.config, self._run.epoch, policy_loss, critic_loss, distribution.entropy(), weight, rho=rho
        )

    def state(self) -> dict[str, Any]:
        """Return the state of the actors and of the rollouts under way."""
        return self._stream.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._stream.load_state(state)
