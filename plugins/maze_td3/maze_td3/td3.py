"""TD3 (Fujimoto et al., arXiv 1802.09477) and DDPG (Lillicrap et al., arXiv 1509.02971)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
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
    steps_of_each,
)
from torch import nn

from maze_core import Algorithm, Batch, Loss, Purpose, generator, hookimpl, torch_generator
from maze_td3.config import DDPGConfig, TD3Config

if TYPE_CHECKING:
    from maze_core import AlgorithmConfig, Optimizer, Policy, Run

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
        noise = generator(run.seed, Purpose.POLICY_NOISE, _EXPLORATION)
        collector = ReplayCollector(
            run,
            steps_of_each(config.collect_steps, config.num_envs),
            config.num_envs,
            config.replay_buffer_size,
            exploration_of(run, config, noise),
            initial_steps=config.initial_buffer_size,
            first_policy=config.initial_sampling_policy,
            utd=config.utd,
            her_goals=config.her_goals,
        )
        self._collector = self.keep("collector", collector)
        self.actions = JointActions(run.observation_space, run.action_space).to(run.device)
        check_deterministic(run.policy, self.actions, config.name)
        self.critics = critics_of(run, self.actions, config)
        target_noise = torch_generator(run.seed, Purpose.POLICY_NOISE, _TARGET_NOISE, device=run.device)
        self.noise = self.keep("noise", target_noise)
        self.targets = DeterministicTargets(self.critics, run.policy, self.actions, self.noise)

    def modules(self) -> dict[str, nn.Module]:
        """Return the critics and both targets."""
        return {"critics": self.critics, **self.targets.modules()}

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return Adam with a group for each objective."""
        return critic_and_policy_optimizer(self.critics, policy, self.config.lr, self.config.critic_lr)

    def batches(self) -> Iterator[Batch]:
        """Step the environments; yield batches for the critics and, after every few of them, for the policy."""
        config, run = self.config, self._run
        for _ in range(self._collector.collect()):
            batch = self._collector.sample(config.batch_size, config.gamma, config.n_step)
            yield replace(batch, objective="critic", group="critic")
            # Each `policy_delay` steps for the critics are followed by one for the policy.
            if run.learner.steps % (config.policy_delay + 1) == config.policy_delay:
                yield replace(batch, objective="policy", group="policy")
                self.targets.follow(config.tau)

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the loss of the objective that the batch names."""
        config, features = self.config, self.critics.features(policy.normalized(batch.obs))
        if batch.objective == "policy":
            acted = most_likely(policy, batch.obs, self.actions)
            value = self.critics.values(features.detach(), acted, frozen=True, first=1)[0]
            return Loss(-value.mean(), {"policy": -value.detach().mean()})
        values = self.critics.values(features, self.actions.canonical(batch.actions)).squeeze(-1)
        target = self.targets.values(policy, batch, config.target_noise, config.target_noise_clip)
        loss = (values - target).square().mean(-1).sum()
        return Loss(loss, {"critic": loss.detach(), "q": values.detach().mean()})


class DDPG(TD3):
    """Deep deterministic policy gradient: one critic, no smoothing, no delay."""

    Config = DDPGConfig
    config: DDPGConfig
