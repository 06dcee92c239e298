"""Implicit Q-learning from recorded trajectories (Kostrikov et al., arXiv 2110.06169)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from maze_offpolicy import JointActions, Target, build_critics
from maze_onpolicy import nearly_equal
from maze_recordings.recorded_steps import RecordedSteps, check_without_steps
from torch import Tensor, nn

from maze_core import Adam, Algorithm, Batch, ConfigError, Loss, Purpose, hookimpl
from maze_core.base.process_state import isolated_rng
from maze_core.base.seeding import integer_seed
from maze_offline.config import IQLConfig
from maze_offline.losses import advantage_weights, expectile_loss, squared_errors

if TYPE_CHECKING:
    from maze_core import AlgorithmConfig, Optimizer, Policy, Run, RunConfig

_CRITICS = 1
# Separates the critics' parameters from the policy's.


class IQL(Algorithm):
    """Implicit Q-learning, offline, for every action space: values of recorded actions only."""

    Config: ClassVar[type[AlgorithmConfig]] = IQLConfig
    config: IQLConfig
    needs_critic = False
    supports_agents = True
    calls = ("compute_loss",)
    columns: ClassVar[Mapping[str, str]] = {
        "loss/policy": "policy", "loss/critic": "critic", "loss/value": "value", "loss/q": "q",
    }  # fmt: skip
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"hidden": [256, 256], "activation": "relu"},
        "callbacks": {"early_stopping": {"patience": 0}},
    }

    def check(self, config: RunConfig) -> None:
        """Refuse runs counted in environment steps."""
        check_without_steps(config)

    def setup(self, run: Run) -> None:
        """Load the data; build both kinds of critics and the target."""
        config = self.config
        self._steps = self.keep("steps", RecordedSteps(run, config.dataset, config.n_workers))
        self._reward_scale = _reward_scale(self._steps.returns) if config.normalize_returns else 1.0
        self.actions = JointActions(run.observation_space, run.action_space).to(run.device)
        layers = config.critic_hidden, config.critic_activation
        with isolated_rng(integer_seed(run.seed, Purpose.MODEL_INIT, _CRITICS)):
            size, outputs = self.actions.box_size, self.actions.outputs
            self.critics = build_critics(run.policy, size, outputs, *layers, config.n_critics).to(run.device)
            self.value = build_critics(run.policy, 0, 1, *layers, 1).to(run.device)
        self.target = Target(self.critics)

    def modules(self) -> dict[str, nn.Module]:
        """Return the critics, their target, and the critic of states."""
        return {"critics": self.critics, "critic_target": self.target.module, "value": self.value}

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return one Adam: the policy at `lr`, all critics at `critic_lr`."""
        lr, critic_lr = self.config.lr, self.config.critic_lr
        critics = [*self.critics.parameters(), *self.value.parameters()]
        return Adam(
            [
                {"params": [p for p in policy.parameters() if p.requires_grad], "lr": lr},
                {"params": critics, "lr": lr if critic_lr is None else critic_lr},
            ]
        )

    def batches(self) -> Iterator[Batch]:
        """Yield a batch of recorded steps; the target follows after the update."""
        config = self.config
        batch = self._steps.sample(config.batch_size, config.gamma)
        batch.extra["reward"] *= self._reward_scale
        yield batch
        self.target.follow(config.tau)

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the losses of the state's value, the critics and the policy in one scalar.

        Each has gradients for its own network only: what it reads of the others is a constant.
        """
        config, obs = self.config, policy.normalized(batch.obs)
        with torch.no_grad():
            least = self._values(self.target.module, obs, batch).amin(0)
            following = self._state_value(policy.normalized(batch.next_obs))
            target = torch.addcmul(batch.extra["reward"], batch.extra["discount"], following)
        value = self._state_value(obs)
        value_loss = expectile_loss(least - value, config.expectile)
        values = self._values(self.critics, obs, batch)
        critic_loss = squared_errors(values, target)
        advantages = least - value.detach()
        weights = advantage_weights(advantages, config.beta, config.max_weight)
        distribution = policy.distribution(batch.obs)
        likelihood = distribution.log_prob(distribution.from_env_action(batch.actions))
        policy_loss = -(weights * likelihood).mean()
        metrics = {
            "policy": policy_loss, "critic": critic_loss, "value": value_loss, "q": values.mean(),
            "nll": -likelihood.mean(), "weight": weights.mean(),
        }  # fmt: skip
        total = value_loss + critic_loss + policy_loss
        return Loss(total, {name: metric.detach() for name, metric in metrics.items()})

    def _values(self, critics: Any, obs: dict[str, Tensor], batch: Batch) -> Tensor:
        """Return the critics' values of the recorded actions, [K, B]."""
        values = critics.values(critics.features(obs), self.actions.canonical(batch.actions))
        return self.actions.chosen(values, batch.actions)

    def _state_value(self, obs: dict[str, Tensor]) -> Tensor:
        """Return the values of states, [B]."""
        return self.value.values(self.value.features(obs), None)[0].squeeze(-1)


def _reward_scale(returns: np.ndarray) -> float:
    """Return 1000 over the range of the returns. Raises ConfigError where all are equal."""
    low, high = float(np.min(returns)), float(np.max(returns))
    if nearly_equal(low, high):
        raise ConfigError(
            "the recorded episodes have equal returns, which have no range to divide by",
            "algorithm.normalize_returns",
            "Next: --no-normalize-returns, or record more episodes",
        )
    return 1000.0 / (high - low)
