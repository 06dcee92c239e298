"""Advantage actor-critic: one step on each rollout (Mnih et al., arXiv 1602.01783, its synchronous form)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from maze_onpolicy import (
    CriticBurnIn,
    RMSprop,
    RolloutCollector,
    actor_critic_loss,
    advantage_rows,
    cost_modules,
    normalized,
    policy_gradient_term,
    rollout_costs,
    squared_error_term,
)

from maze_a2c.config import A2CConfig
from maze_core import ROW_WEIGHT, Adam, Algorithm, Batch, Loss, hookimpl
from maze_core.learn.algorithm import learning_parameters

if TYPE_CHECKING:
    from torch import Tensor, nn

    from maze_core import Optimizer, Policy, Run


class A2C(Algorithm):
    """Advantage actor-critic, on-policy, for every action space."""

    Config = A2CConfig
    config: A2CConfig
    needs_critic = True
    supports_memory = True
    supports_actors = True
    supports_agents = True
    supports_learners = True
    supports_tensors = True
    weighs_rows = True
    calls = ("compute_loss", *RolloutCollector.calls)
    columns: ClassVar[Mapping[str, str]] = {"loss/policy": "policy", "loss/value": "value", "loss/entropy": "entropy"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"normalize_observations": True, "log_std_init": -1.0}
    }

    def setup_loss(self, run: Run) -> None:
        """Prepare the burn-in of the critic, and the critics of costs."""
        self._run = run
        self._burn_in = CriticBurnIn(run, self.config.critic_burn_in_epochs)
        self._costs = rollout_costs(run)
        self._cost_loss = None if self._costs is None else self._costs.loss

    def setup(self, run: Run) -> None:
        """Build the collector."""
        self._collector = self.keep("collector", RolloutCollector.of(run, self.config))

    def modules(self) -> dict[str, nn.Module]:
        """Return the critics of costs, if the run has constraints."""
        return cost_modules(self._costs)

    def batches(self) -> Iterator[Batch]:
        """Collect a rollout and yield all of its rows once."""
        config, run = self.config, self._run
        rollout = self._collector.collect()
        rows, metrics = advantage_rows(
            run.policy,
            rollout,
            config.gamma,
            config.gae_lambda,
            run.device,
            config.sequence_length,
            formulas=self._burn_in.closed_form(),
            costs=self._costs,
        )
        run.record(metrics)
        if len(rows):  # a rollout may contain filler rows only
            if config.normalize_advantages:
                rows.extra["advantage"] = normalized(rows.extra["advantage"], rows.extra.get("group"))
            yield rows
        if not self._burn_in.active:
            self._collector.update_normalizer()

    def loss_constants(self) -> Hashable:
        """Return whether the critic learns alone, which changes with the epochs."""
        return self._burn_in.active

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return policy gradient, squared error of the critic, entropy bonus, and errors of critics of costs."""
        loss = self._loss(policy, batch)
        return loss if self._cost_loss is None else self._cost_loss.added_to(loss, policy, batch)

    def _loss(self, policy: Policy, batch: Batch) -> Loss:
        config, data = self.config, batch.extra
        formulas = self._burn_in.closed_form()
        if formulas is not None and "carried" not in data:
            rows = formulas.evaluate(batch)
            gradient = policy_gradient_term(rows.log_prob, data["advantage"].numpy())
            return rows.loss(config, gradient, squared_error_term(rows.value, data["target"].numpy()))
        distribution, value = self._burn_in.forward(policy, batch.obs, batch.sequences)
        log_prob = distribution.log_prob(batch.actions)
        policy_loss = log_prob * -data["advantage"]
        if "carried" in data:  # these actions were chosen with the parameters of an earlier rollout
            policy_loss = policy_loss * importance(log_prob.detach(), data["carried"])
        critic_loss = (value - data["target"]).square()
        entropy, weight = distribution.entropy(), data.get(ROW_WEIGHT)
        return actor_critic_loss(config, self._run.epoch, policy_loss, critic_loss, entropy, weight)

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return the configured optimizer over the trainable parameters."""
        config, parameters = self.config, learning_parameters(policy, *self.modules().values())
        if config.optimizer == "rmsprop":
            return RMSprop(parameters, lr=config.lr, alpha=config.beta2)
        return Adam(parameters, lr=config.lr, betas=(config.beta1, config.beta2))


def importance(log_prob: Tensor, carried: Tensor) -> Tensor:
    """Return the importance weights [B] of actions: 1 where they were chosen with the parameters of the moment.

    Args:
        log_prob: [B], log-probabilities of the actions.
        carried: [B], their log-probabilities at the time of acting; nan where that is now.
    """
    return (log_prob - torch.where(carried.isnan(), log_prob, carried)).exp()
