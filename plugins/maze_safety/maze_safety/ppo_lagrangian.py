"""PPO with a Lagrange multiplier for costs (Ray, Achiam and Amodei 2019)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from maze_offpolicy import build_critics
from maze_onpolicy import (
    RolloutCollector,
    advantage_rows,
    clipped_surrogate,
    generalized_advantages,
    normalized,
    rollout_discounts,
    rollout_values,
    row_divergence,
)
from torch import Tensor, nn

from maze_core import Algorithm, Batch, Loss, Policy, Purpose, Rollout, Run, TensorTree, generator, hookimpl
from maze_core.base.process_state import isolated_rng
from maze_core.base.seeding import integer_seed
from maze_core.data.batch import mean_of_rows
from maze_safety.config import PPOLagrangianConfig
from maze_safety.multiplier import Multiplier

_COST_CRITIC = 1
# Separates the critic of costs from the policy's parameters.


class PPOLagrangian(Algorithm):
    """PPO under a limit of the cost of an episode, on-policy, for every action space."""

    Config = PPOLagrangianConfig
    config: PPOLagrangianConfig
    needs_critic = True
    supports_actors = True
    supports_learners = True
    weighs_rows = True
    info_columns: ClassVar[tuple[str, ...]] = ("cost",)
    calls = ("compute_loss", *RolloutCollector.calls)
    columns: ClassVar[Mapping[str, str]] = {
        "train/cost_return_mean": "cost",
        "train/multiplier": "multiplier",
        "loss/policy": "policy",
        "loss/value": "value",
        "loss/cost_value": "cost value",
    }
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"log_std_init": -0.25}}

    def setup_loss(self, run: Run) -> None:
        """Build the critic of costs."""
        config = self.config
        with isolated_rng(integer_seed(run.seed, Purpose.MODEL_INIT, _COST_CRITIC)):
            critics = build_critics(run.policy, 0, 1, config.critic_hidden, config.critic_activation, 1)
        self._run, self.cost_critic = run, critics.to(run.device)

    def setup(self, run: Run) -> None:
        """Build the collector and the multiplier."""
        config = self.config
        self._collector = self.keep("collector", RolloutCollector.of(run, config))
        self._order = self.keep("order", generator(run.seed, Purpose.MINIBATCH_ORDER))
        self._multiplier = self.keep("multiplier", Multiplier(config.multiplier_init, config.multiplier_lr))

    def modules(self) -> dict[str, nn.Module]:
        """Return the critic of costs."""
        return {"cost_critic": self.cost_critic}

    def batches(self) -> Iterator[Batch]:
        """Collect a rollout and move the multiplier; yield the rows in shuffled minibatches, over several passes."""
        config, run = self.config, self._run
        rollout = self._collector.collect()
        # The multiplier of this update is moved by the costs of its own rollout, as by the authors.
        if rollout.episodes:
            cost = float(np.mean([episode.metrics["cost_return_mean"] for episode in rollout.episodes]))
            self._multiplier.step(cost - config.cost_limit)
        self._add_cost_advantages(rollout)
        rows, metrics = advantage_rows(run.policy, rollout, config.gamma, config.gae_lambda, run.device, log_probs=True)
        run.record({**metrics, "train/multiplier": self._multiplier.value})
        yield from self._passes(rows)
        self._collector.update_normalizer()

    def _add_cost_advantages(self, rollout: Rollout) -> None:
        """Add the advantages of costs, and what their critic is to learn, to a rollout."""
        config = self.config
        values, next_values = rollout_values(self.cost_values, rollout, self._run.device)
        advantages = generalized_advantages(
            rollout.extra["cost"],
            values,
            next_values,
            discounts=rollout_discounts(rollout, config.cost_gamma),
            continues=rollout.continues.astype(np.float32),
            gae_lambda=config.cost_gae_lambda,
        )
        rollout.extra |= {"cost_advantage": advantages, "cost_target": advantages + values}

    def cost_values(self, obs: TensorTree) -> Tensor:
        """Return the expected discounted costs from observations on, leaves [B, …]: [B]."""
        critic = self.cost_critic
        return critic.values(critic.features(self._run.policy.normalized(obs)), None)[0, :, 0]

    def _passes(self, rows: Batch) -> Iterator[Batch]:
        """Yield shuffled minibatches, pass after pass, until the KL divergence exceeds `target_kl`.

        Their advantages are those of the Lagrangian, divided by the sum of its weights, so that the steps do not grow
        with the multiplier. Those of costs are centred, not scaled: rare costs would become mere noise.
        """
        config, weight = self.config, self._multiplier.value
        for _ in range(config.n_optimization_epochs):
            for batch in rows.minibatches(config.batch_size, self._order):
                gain, cost = batch.extra["advantage"], batch.extra["cost_advantage"]
                if config.normalize_advantages:
                    gain, cost = normalized(gain), cost - cost.mean()
                batch.extra["advantage"] = (gain - weight * cost) / (1 + weight)
                yield batch
                divergence = row_divergence(self.row_results["log_ratio"]).mean().item()
                self._run.record({"loss/kl": divergence})
                if config.target_kl is not None and divergence > config.target_kl:
                    return

    def score(self, metrics: Mapping[str, float]) -> float:
        """Return the mean return of an evaluation within the limit, nan for one that costs more."""
        within = metrics.get("eval/cost_return_mean", math.nan) <= self.config.cost_limit
        return super().score(metrics) if within else math.nan

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return clipped surrogate, squared errors of both critics and entropy bonus."""
        config, data = self.config, batch.extra
        distribution, value = policy(batch.obs)
        log_ratio = distribution.log_prob(batch.actions) - data["log_prob"]
        self.row_results = {"log_ratio": log_ratio.detach()}
        surrogate = mean_of_rows(clipped_surrogate(log_ratio.exp(), data["advantage"], config.clip_range), data)
        error = mean_of_rows((value - data["target"]).square(), data)
        cost_error = mean_of_rows((self.cost_values(batch.obs) - data["cost_target"]).square(), data)
        entropy = mean_of_rows(distribution.entropy(), data)
        total = surrogate + config.value_loss_coef * (error + cost_error) - config.entropy_coef * entropy
        parts = {"policy": surrogate, "value": error, "cost_value": cost_error, "entropy": entropy}
        return Loss(total, {name: part.detach() for name, part in parts.items()})
