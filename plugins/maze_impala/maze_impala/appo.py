"""APPO: IMPALA's actors with PPO's clipped objective around a target policy (Luo et al., arXiv 1912.00167)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from maze_offpolicy import Target
from maze_onpolicy import GROUP, actor_critic_loss, clipped_surrogate, normalized, row_divergence
from torch import Tensor

from maze_core import Batch, Loss, distribution_of, hookimpl
from maze_impala.config import APPOConfig
from maze_impala.correction import corrected, explained, row_weights
from maze_impala.impala import IMPALA

if TYPE_CHECKING:
    from torch import nn

    from maze_core import Policy, Run


class APPO(IMPALA):
    """Asynchronous proximal policy optimisation, for every action space."""

    Config = APPOConfig
    config: APPOConfig
    supports_learners = True
    columns: ClassVar[Mapping[str, str]] = {**IMPALA.columns, "loss/kl": "kl"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"normalize_observations": True, "log_std_init": -0.5}
    }

    def setup_loss(self, run: Run) -> None:
        """Prepare the burn-in of the critic, and copy the policy."""
        super().setup_loss(run)
        self._target = Target(run.policy)

    def modules(self) -> dict[str, nn.Module]:
        """Return the target policy."""
        return {"target": self._target.module}

    def _passes(self, batch: Batch) -> Iterator[Batch]:
        """Yield the trajectories with their advantages, several times."""
        if self._run.updates % self.config.target_update_interval == 0:
            self._target.follow(1.0)
        self._judge(batch)
        for _ in range(self.config.n_optimization_epochs):
            yield batch

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
        if config.normalize_advantages:
            advantage = normalized(advantage, data.get(GROUP), data["weight"] > 0)
        data["advantage"] = advantage
        data["anchor"] = anchored(log_prob, data["log_prob"], config.ratio_bound)

    def loss_constants(self) -> Hashable:
        """Return whether the critic learns alone, which changes with the epochs."""
        return self._burn_in.active

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


def anchored(target: Tensor, acting: Tensor, bound: float | None) -> Tensor:
    """Return the log-probabilities [B] that those of the learning policy are compared with.

    The ratio of IMPACT is min(acting / target, bound) * learning / acting (Luo et al., arXiv 1912.00167, eq. 5), which
    is learning / max(target, acting / bound).

    Args:
        target: [B], log-probabilities of the actions under the target policy.
        acting: [B], under the policy that acted.
        bound: None: no bound; the target's alone.
    """
    return target if bound is None else torch.max(target, acting - math.log(bound))
