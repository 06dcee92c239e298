"""Constraints in actor-critics that learn from rollouts: critics of costs, and advantages less their price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from maze_offpolicy import build_critics
from maze_onpolicy import generalized_advantages, rollout_discounts, rollout_values

from maze_core import Purpose
from maze_core.base.process_state import isolated_rng
from maze_core.base.seeding import integer_seed
from maze_core.data.batch import mean_of_rows

if TYPE_CHECKING:
    from maze_offpolicy import StateActionCritics
    from torch import Tensor

    from maze_core import Batch, Loss, Policy, Rollout, Run, TensorTree
    from maze_safety.multipliers import Multipliers

_CRITICS = 2
# Separates the random numbers of their first parameters.
_ADVANTAGE, _TARGET = "cost_advantage", "cost_target"


class CostLoss:
    """What critics of costs add to the loss of an algorithm.

    Args:
        critics: K critics of observations.
        coef: weight of their squared errors.
    """

    def __init__(self, critics: StateActionCritics, coef: float) -> None:
        self.critics, self.coef = critics, coef

    def values(self, policy: Policy, obs: TensorTree) -> Tensor:
        """Return the expected discounted costs from observations on, leaves [B, …]: [K, B]."""
        return self.critics.values(self.critics.features(policy.normalized(obs)), None).squeeze(-1)

    def added_to(self, loss: Loss, policy: Policy, batch: Batch) -> Loss:
        """Return the loss with the critics' squared errors."""
        errors = (self.values(policy, batch.obs) - batch.extra[_TARGET].T).square().sum(0)
        return loss.plus("cost_value", self.coef * mean_of_rows(errors, batch.extra))


class RolloutCosts:
    """The costs of rollouts: what an on-policy algorithm asks for.

    Args:
        run: its algorithm keeps the multipliers.
        multipliers: those of its constraints.
    """

    def __init__(self, run: Run, multipliers: Multipliers) -> None:
        config = multipliers.config
        with isolated_rng(integer_seed(run.seed, Purpose.MODEL_INIT, _CRITICS)):
            count = len(multipliers.names)
            critics = build_critics(run.policy, 0, 1, config.hidden, config.activation, count).to(run.device)
        self._run, self._multipliers, self.critics = run, multipliers, critics
        self.loss = CostLoss(critics, getattr(run.config.algorithm, "value_loss_coef", 1.0))

    def observe(self, rollout: Rollout) -> None:
        """Move the multipliers by the episodes of a rollout; add advantages of costs, and what their critics learn."""
        self._multipliers.observe(rollout.episodes)
        self._multipliers.move()
        costs, discounts = self._multipliers.costs(rollout.extra), rollout_discounts(rollout, self._config.gamma)
        found = [self._advantages(rollout, k, costs[..., k], discounts) for k in range(costs.shape[-1])]
        rollout.extra[_ADVANTAGE], rollout.extra[_TARGET] = (np.stack(each, -1) for each in zip(*found, strict=True))

    @property
    def _config(self) -> Any:
        return self._multipliers.config

    def _advantages(
        self, rollout: Rollout, k: int, costs: np.ndarray, discounts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return advantages and targets [T, N] of one constraint, whose steps cost [T, N].

        Nothing follows an episode whose number is known only at its end, even where a time limit has ended it.
        """
        run = self._run
        values, following = rollout_values(lambda obs: self.loss.values(run.policy, obs)[k], rollout, run.device)
        if any(_is_of_episode(self._multipliers.names[k], each) for each in rollout.episodes):
            discounts = np.where(rollout.truncated, np.float32(0), discounts)
        advantages = generalized_advantages(
            costs,
            values,
            following,
            discounts=discounts,
            continues=rollout.continues.astype(np.float32),
            gae_lambda=self._config.gae_lambda,
        )
        return advantages, advantages + values

    def penalize(self, rows: Batch) -> None:
        """Replace the advantages of rewards by those of the Lagrangian, in place.

        A = (A_R - sum over k of p_k (A_k - mean A_k)) / (1 + sum of the multipliers), with prices p_k.
        """
        extra = rows.extra
        gain, costs = extra["advantage"], extra.pop(_ADVANTAGE)
        if len(rows):
            self._multipliers.weigh(gain.std(correction=0).item(), costs.std(0, correction=0).tolist())
        prices = torch.from_numpy(self._multipliers.prices).to(costs)
        extra["advantage"] = (gain - (costs - costs.mean(0)) @ prices) * self._multipliers.share
        for name in self._config.info_columns:
            del extra[name]


def _is_of_episode(name: str, episode: Any) -> bool:
    return (
        name == "length"
        or f"kpi/{name}" in episode.metrics
        or name in episode.metrics
        or (episode.events is not None and name in episode.events.values)
    )
