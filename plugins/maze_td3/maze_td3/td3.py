"""TD3 (Fujimoto et al., arXiv 1802.09477) and DDPG (Lillicrap et al., arXiv 1509.02971)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from gymnasium.spaces import Box, Dict
from maze_offpolicy import (
    DeterministicTargets,
    JointActions,
    ReplayCollector,
    check_deterministic,
    critic_and_policy_optimizer,
    critics_of,
    exploration_of,
    most_likely,
    replay_costs,
    steps_of_each,
)
from torch import Tensor, nn

from maze_core import Algorithm, Batch, Loss, Purpose, generator, hookimpl, torch_generator
from maze_td3.config import DDPGConfig, TD3Config

if TYPE_CHECKING:
    import numpy as np
    from maze_offpolicy import StateActionCritics

    from maze_core import AlgorithmConfig, Optimizer, Policy, Run
    from maze_core.collect.agents.agent import Exploration
    from maze_core.envs.vector import StepResult

_EXPLORATION, _TARGET_NOISE = 2, 3
# Separate random streams of one purpose.


class TD3(Algorithm):
    """Twin delayed deep deterministic policy gradient, off-policy, for Box actions with finite bounds."""

    Config: ClassVar[type[AlgorithmConfig]] = TD3Config
    config: TD3Config
    needs_critic = False
    supports_agents = True
    action_spaces = (Box, Dict)
    calls = ("compute_loss", *ReplayCollector.calls)
    columns: ClassVar[Mapping[str, str]] = {"loss/critic": "critic", "loss/policy": "policy", "loss/q": "q"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"distribution": "squashed_gaussian", "hidden": [256, 256], "activation": "relu"},
        "callbacks": {"early_stopping": {"patience": 0}},
    }

    def setup(self, run: Run) -> None:
        """Build collector, critics and targets."""
        config = self.config
        self._run = run
        exploration, seen = self._exploration(run, generator(run.seed, Purpose.POLICY_NOISE, _EXPLORATION))
        collector = ReplayCollector(
            run,
            steps_of_each(config.collect_steps, config.num_envs),
            config.num_envs,
            config.replay_buffer_size,
            exploration,
            initial_steps=config.initial_buffer_size,
            first_policy=config.initial_sampling_policy,
            utd=config.utd,
            her_goals=config.her_goals,
            seen=seen,
        )
        self._collector = self.keep("collector", collector)
        self.actions = JointActions(run.observation_space, run.action_space).to(run.device)
        check_deterministic(run.policy, self.actions, config.name)
        self.critics = self._build_critics(run)
        target_noise = torch_generator(run.seed, Purpose.POLICY_NOISE, _TARGET_NOISE, device=run.device)
        self.noise = self.keep("noise", target_noise)
        self.targets = self._build_targets(run)
        self._costs = replay_costs(run, self.actions)
        self._cost_loss = None if self._costs is None else self._costs.loss

    def _exploration(
        self, run: Run, rng: np.random.Generator
    ) -> tuple[Exploration, Callable[[StepResult], None] | None]:
        """Return what explores while collecting, and what is called with each step's result, if anything is."""
        return exploration_of(run, self.config, rng), None

    def _build_critics(self, run: Run) -> StateActionCritics:
        """Return the critics."""
        return critics_of(run, self.actions, self.config)

    def _build_targets(self, run: Run) -> DeterministicTargets:
        """Return what the critics aim at."""
        return DeterministicTargets(self.critics, run.policy, self.actions, self.noise)

    def _follow(self, objective: str) -> None:
        """Move the targets where they follow an update of this objective: when the policy has learned."""
        if objective == "policy":
            self.targets.follow(self.config.tau)

    def modules(self) -> dict[str, nn.Module]:
        """Return the critics and both targets, and the critics of costs."""
        costs = {} if self._costs is None else self._costs.modules()
        return {"critics": self.critics, **self.targets.modules(), **costs}

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return Adam with a group for each objective."""
        return self._optimizer(policy)

    def _optimizer(self, policy: Policy, weight_decay: float = 0.0) -> Optimizer:
        critics = self.critics if self._costs is None else nn.ModuleList((self.critics, self._costs.critics))
        return critic_and_policy_optimizer(critics, policy, self.config.lr, self.config.critic_lr, weight_decay)

    def batches(self) -> Iterator[Batch]:
        """Step the environments; yield batches for the critics and, after every few of them, for the policy."""
        config, run = self.config, self._run
        due = self._collector.collect()
        if self._costs is not None:
            self._costs.observe(self._collector.ended)
        for _ in range(due):
            batch = self._collector.sample(config.batch_size, config.gamma, config.n_step)
            yield replace(batch, objective="critic", group="critic")
            self._follow("critic")
            # Each `policy_delay` steps for the critics are followed by one for the policy.
            if run.learner.steps % (config.policy_delay + 1) == config.policy_delay:
                yield replace(batch, objective="policy", group="policy")
                self._follow("policy")
                if self._costs is not None:
                    self._costs.weigh(self.row_results["value"], self.row_results["cost"].T)
                    self._costs.follow(config.tau)

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the loss of the objective that the batch names."""
        features = self.critics.features(policy.normalized(batch.obs))
        if batch.objective == "policy":
            acted = most_likely(policy, batch.obs, self.actions)
            value = self._climbed(features.detach(), acted)
            loss = -value.mean()
            if self._cost_loss is not None:
                costs = self._cost_loss.values(policy, batch.obs, acted, _single)
                loss = self._cost_loss.penalized(loss, costs)
                self.row_results = {"value": value.detach(), "cost": costs.detach().T}
            return Loss(loss, {"policy": loss.detach()})
        loss, expected = self._error(policy, batch, features)
        metrics = {"critic": loss.detach(), "q": expected}
        if self._cost_loss is not None:
            following = most_likely(self.targets.policy.module, batch.next_obs, self.actions)
            error = self._cost_loss.error(policy, batch, following, _single)
            loss, metrics["cost_critic"] = loss + error, error.detach()
        return Loss(loss, metrics)

    def _climbed(self, features: Tensor, acted: Tensor) -> Tensor:
        """Return what the policy climbs, [B], for the critics' features and its actions [B, d]: the first critic."""
        return _single(self.critics.values(features, acted, frozen=True, first=1))[0]

    def _error(self, policy: Policy, batch: Batch, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return the critics' loss on a batch, and their mean value, which has no gradient; shape () both."""
        values = _single(self.critics.values(features, self.actions.canonical(batch.actions)))
        target = self.targets.values(policy, batch, self.config.target_noise, self.config.target_noise_clip)
        return (values - target).square().mean(-1).sum(), values.detach().mean()


def _single(values: Tensor) -> Tensor:
    """Return the values [K, B] of actions without choices, from [K, B, 1]."""
    return values.squeeze(-1)


class DDPG(TD3):
    """Deep deterministic policy gradient: one critic, no smoothing, no delay."""

    Config = DDPGConfig
    config: DDPGConfig
