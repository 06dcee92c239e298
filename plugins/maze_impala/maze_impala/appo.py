"""APPO: IMPALA's actors with PPO's clipped objective around a target policy (Luo et al., arXiv 1912.00167)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from maze_core.data.batch import Batch, Loss
from maze_core.data.shares import Share, shares_of_trajectories
from maze_core.plugins.hookspecs import hookimpl
from maze_core.training.algorithm import Algorithm
from maze_core.training.burn_in import CriticBurnIn
from maze_core.training.on_policy import actor_critic_loss
from maze_core.training.remembered import distribution_of
from maze_core.training.schedules import scheduled
from maze_core.training.surrogate import clipped_surrogate, row_divergence
from maze_core.training.targets import Target
from maze_impala.anchor import anchored, weighted_normal
from maze_impala.appo_config import APPOConfig
from maze_impala.correction import corrected, explained, row_weights
from maze_impala.stream import TrajectoryStream

if TYPE_CHECKING:
    from torch import nn

    from maze_core.models.policy import Policy
    from maze_core.training.run import Run


class APPO(Algorithm):
    """Asynchronous proximal policy optimisation, for every action space."""

    Config = APPOConfig
    config: APPOConfig
    needs_critic = True
    supports_memory = True
    supports_actors = True
    supports_agents = True
    supports_learners = True
    columns: ClassVar[Mapping[str, str]] = {
        "loss/policy": "policy",
        "loss/value": "value",
        "loss/entropy": "entropy",
        "loss/kl": "kl",
    }
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"normalize_observations": True, "log_std_init": -0.5}
    }

    def setup_loss(self, run: Run) -> None:
        """Prepare the burn-in of the critic, and copy the policy."""
        self._run = run
        self._burn_in = CriticBurnIn(run, self.config.critic_burn_in_epochs)
        self._target = Target(run.policy)

    def setup(self, run: Run) -> None:
        """Start the actors."""
        self._stream = TrajectoryStream(run, self.config)

    def modules(self) -> dict[str, nn.Module]:
        """Return the target policy."""
        return {"target": self._target.module}

    def batches(self) -> Iterator[Batch]:
        """Yield the next trajectories with their advantages, several times."""
        config, run = self.config, self._run
        run.learner.scale_lr(scheduled(config.lr_schedule, run.fraction_done))
        if run.updates % config.target_update_interval == 0:
            self._target.follow(1.0)
        batch = self._stream.next_batch()
        self._judge(batch)
        for _ in range(config.n_optimization_epochs):
            yield batch
        if run.policy.normalizer is not None and not self._burn_in.active:
            run.policy.normalizer.update(batch.obs, batch.extra["weight"])

    def shares(self, batch: Batch, count: int) -> list[Share]:
        """Return shares of whole trajectories: V-trace looks ahead in them."""
        return shares_of_trajectories(batch, count, self.config.n_rollout_steps)

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return clipped surrogate, the critic's squared error to the V-trace targets, and entropy bonus."""
        config, data = self.config, batch.extra
        distribution, value = self._burn_in.forward(policy, batch.obs, batch.sequences)
        log_ratio = distribution.log_prob(batch.actions) - data["anchor"]
        ratio = log_ratio.exp()
        policy_loss = clipped_surrogate(ratio, data["advantage"], config.clip_range)
        critic_loss = (value - data["target"]).square()
        weight = row_weights(data)
        metrics = {
            "kl": row_divergence(log_ratio.detach()) @ weight,
            "clip_fraction": ((ratio.detach() - 1).abs() > config.clip_range).float() @ weight,
        }
        entropy = distribution.entropy()
        return actor_critic_loss(config, self._run.epoch, policy_loss, critic_loss, entropy, weight, **metrics)

    def _judge(self, batch: Batch) -> None:
        """Add what the loss needs, each [T * B]: `advantage` and `target` (the critic's), by V-trace for the target
        policy, and `anchor`, the log-probability that the learning policy's is compared with."""
        config, data, policy = self.config, batch.extra, self._run.policy
        with torch.no_grad():
            value = policy.value(batch.obs) if batch.sequences is None else policy.value(batch.obs, batch.sequences)
            log_prob = distribution_of(self._target.module, batch.obs, batch.sequences).log_prob(batch.actions)
        log_rho = log_prob - data["log_prob"]
        data["target"], advantage = corrected(config, log_rho, value, data)
        weight = row_weights(data)
        metrics = explained(value, data["target"], data["weight"])
        self._run.record({**metrics, "train/rho": float(log_rho.exp() @ weight)})
        data["advantage"] = weighted_normal(advantage, weight) if config.normalize_advantages else advantage
        data["anchor"] = anchored(log_prob, data["log_prob"], config.ratio_bound)

    def state(self) -> dict[str, Any]:
        """Return the state of the actors and of the rollouts under way."""
        return self._stream.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._stream.load_state(state)
