"""Proximal policy optimisation: several clipped passes over each rollout (Schulman et al., arXiv 1707.06347)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from maze_onpolicy import (
    CriticBurnIn,
    RolloutCollector,
    actor_critic_loss,
    advantage_rows,
    clipped_surrogate,
    cost_modules,
    normalized,
    rollout_costs,
    row_divergence,
    squared_error_term,
    surrogate_term,
)
from torch import Tensor

from maze_core import ROW_WEIGHT, Algorithm, Batch, Loss, Purpose, generator, hookimpl, to_arrays
from maze_ppo.config import PPOConfig

if TYPE_CHECKING:
    from maze_onpolicy import Evaluated
    from torch import nn

    from maze_core import Policy, Run, TensorTree


class PPO(Algorithm):
    """Proximal policy optimisation, on-policy, for every action space."""

    Config = PPOConfig
    config: PPOConfig
    needs_critic = True
    supports_memory = True
    supports_actors = True
    supports_agents = True
    supports_learners = True
    supports_tensors = True
    weighs_rows = True
    calls = ("compute_loss", *RolloutCollector.calls)
    columns: ClassVar[Mapping[str, str]] = {
        "loss/policy": "policy",
        "loss/value": "value",
        "loss/entropy": "entropy",
        "loss/kl": "kl",
    }
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"log_std_init": -0.25}}

    def setup_loss(self, run: Run) -> None:
        """Prepare the burn-in of the critic, and the critics of costs."""
        self._run = run
        self._burn_in = CriticBurnIn(run, self.config.critic_burn_in_epochs)
        self._costs = rollout_costs(run)
        self._cost_loss = None if self._costs is None else self._costs.loss

    def setup(self, run: Run) -> None:
        """Build the collector."""
        self._collector = self.keep("collector", RolloutCollector.of(run, self.config))
        self._order = self.keep("order", generator(run.seed, Purpose.MINIBATCH_ORDER))
        self._log_ratios: list[Tensor] = []

    def modules(self) -> dict[str, nn.Module]:
        """Return the critics of costs, if the run has constraints."""
        return cost_modules(self._costs)

    def batches(self) -> Iterator[Batch]:
        """Collect a rollout; yield its rows in shuffled minibatches, over several passes."""
        config, run = self.config, self._run
        rollout = self._collector.collect()
        rows, metrics = advantage_rows(
            run.policy,
            rollout,
            config.gamma,
            config.gae_lambda,
            run.device,
            config.sequence_length,
            log_probs=True,
            formulas=self._burn_in.closed_form(),
            costs=self._costs,
        )
        run.record(metrics)
        yield from self._passes(rows)
        if self._log_ratios:  # a rollout may contain filler rows only
            self._record_divergence()
        if not self._burn_in.active:
            self._collector.update_normalizer()

    def _passes(self, rows: Batch) -> Iterator[Batch]:
        """Yield shuffled minibatches, pass after pass, until the KL divergence exceeds `target_kl`."""
        target_kl = self.config.target_kl
        for _ in range(self.config.n_optimization_epochs):
            for batch in rows.minibatches(self.config.batch_size, self._order):
                if self.config.normalize_advantages:
                    batch.extra["advantage"] = normalized(batch.extra["advantage"], batch.extra.get("group"))
                yield batch
                if self.row_results:
                    self._log_ratios.append(self.row_results["log_ratio"])
                if target_kl is not None and row_divergence(self._log_ratios[-1]).mean().item() > target_kl:
                    return

    def _record_divergence(self) -> None:
        """Record how far the policy moved, over all minibatches of an update at once: cheaper than for each."""
        log_ratio = torch.cat(self._log_ratios)
        self._log_ratios.clear()
        clipped = torch.count_nonzero((log_ratio.exp() - 1).abs() > self.config.clip_range)
        divergence = row_divergence(log_ratio).mean().item()
        self._run.record({"loss/kl": divergence, "loss/clip_fraction": clipped.item() / len(log_ratio)})

    def loss_constants(self) -> Hashable:
        """Return whether the critic learns alone, which changes with the epochs."""
        return self._burn_in.active

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return clipped surrogate, squared error of the critic, entropy bonus, and errors of critics of costs."""
        formulas = self._burn_in.closed_form()
        if formulas is None:
            loss = self._loss(policy, batch)
        else:
            loss = self._closed_form_loss(formulas.evaluate(batch), batch.extra)
        return loss if self._cost_loss is None else self._cost_loss.added_to(loss, policy, batch)

    def _loss(self, policy: Policy, batch: Batch) -> Loss:
        config, data = self.config, batch.extra
        distribution, value = self._burn_in.forward(policy, batch.obs, batch.sequences)
        log_ratio = distribution.log_prob(batch.actions) - data["log_prob"]
        policy_loss = clipped_surrogate(log_ratio.exp(), data["advantage"], config.clip_range)
        critic_loss = value_loss(value, data["value"], data["target"], config.value_clip_range)
        self.row_results = {"log_ratio": log_ratio.detach()}
        entropy, weight = distribution.entropy(), data.get(ROW_WEIGHT)
        return actor_critic_loss(config, self._run.epoch, policy_loss, critic_loss, entropy, weight)

    def _closed_form_loss(self, rows: Evaluated, data: TensorTree) -> Loss:
        """Return the same loss with its gradients written out."""
        config, arrays = self.config, to_arrays(data)
        log_ratio = rows.log_prob - arrays["log_prob"]
        self.row_results = {"log_ratio": torch.from_numpy(log_ratio)}
        critic = squared_error_term(rows.value, arrays["target"], arrays["value"], config.value_clip_range)
        return rows.loss(config, surrogate_term(log_ratio, arrays["advantage"], config.clip_range), critic)


def value_loss(value: Tensor, old_value: Tensor, target: Tensor, clip_range: float | None) -> Tensor:
    """Return the critic's squared error, [B]; with `clip_range` the larger of the plain and the clipped one.

    Args:
        value: [B], current prediction.
        old_value: [B], prediction when the rollout was collected.
        target: [B]
        clip_range: how far `value` may move from `old_value`; None: no clipping.
    """
    error = (value - target).square()
    if clip_range is None:
        return error
    clipped = old_value + (value - old_value).clamp(-clip_range, clip_range)
    return torch.max(error, (clipped - target).square())
