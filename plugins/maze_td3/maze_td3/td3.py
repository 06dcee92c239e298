"""TD3 (Fujimoto et al., arXiv 1802.09477) and DDPG (Lillicrap et al., arXiv 1509.02971)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor, nn

from maze_core.acting.exploration import ActionNoise
from maze_core.data.batch import Batch, Loss, TensorTree
from maze_core.models.critics import build_critics
from maze_core.models.joint_actions import JointActions, check_squashed
from maze_core.plugins.hookspecs import hookimpl
from maze_core.seeding import Purpose, generator, integer_seed
from maze_core.training.adam import Adam
from maze_core.training.algorithm import Algorithm
from maze_core.training.off_policy import ReplayCollector, check_replay_sizes, steps_of_each
from maze_core.training.process_state import isolated_rng
from maze_core.training.schedules import scheduled
from maze_core.training.targets import Target
from maze_td3.config import DDPGConfig, TD3Config

if TYPE_CHECKING:
    from pathlib import Path

    from maze_core.config.run import AlgorithmConfig, RunConfig
    from maze_core.models.policy import Policy
    from maze_core.training.adam import Optimizer
    from maze_core.training.run import Run

_CRITICS, _EXPLORATION, _TARGET_NOISE = 1, 2, 3
# Separate random streams of one purpose.


class TD3(Algorithm):
    """Twin delayed deep deterministic policy gradient, off-policy, for Box actions with finite bounds."""

    Config: ClassVar[type[AlgorithmConfig]] = TD3Config
    config: TD3Config
    needs_critic = False
    action_spaces = (Box, Dict)
    columns: ClassVar[Mapping[str, str]] = {"loss/critic": "critic", "loss/policy": "policy", "loss/q": "q"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"distribution": "squashed_gaussian", "hidden": [256, 256], "activation": "relu"}
    }

    def check(self, config: RunConfig) -> None:
        """Refuse sizes that contradict each other."""
        check_replay_sizes(config)

    def setup(self, run: Run) -> None:
        """Build collector, critics and targets."""
        config = self.config
        self._run, self._updates = run, 0
        noise = generator(run.seed, Purpose.POLICY_NOISE, _EXPLORATION)
        self._collector = ReplayCollector(
            run,
            steps_of_each(config.collect_steps, config.num_envs),
            config.num_envs,
            config.replay_buffer_size,
            ActionNoise(run.action_space, noise, config.exploration_noise),
            config.initial_sampling_policy,
            utd=config.utd,
        )
        self._actions = JointActions(run.observation_space, run.action_space).to(run.device)
        check_squashed(run.policy, self._actions, config.name)
        for name, parameter in run.policy.named_parameters():
            if name.endswith("log_std"):
                parameter.requires_grad_(False)  # the policy is deterministic
        with isolated_rng(integer_seed(run.seed, Purpose.MODEL_INIT, _CRITICS)):
            self._critics = build_critics(
                run.policy,
                self._actions.box_size,
                1,
                config.critic_hidden,
                config.critic_activation,
                config.n_critics,
            ).to(run.device)
        self._critic_target, self._policy_target = Target(self._critics), Target(run.policy)
        self._policy_target.module.normalizer = run.policy.normalizer  # its statistics belong to both networks
        self._noise = torch.Generator(run.device)
        self._noise.manual_seed(integer_seed(run.seed, Purpose.POLICY_NOISE, _TARGET_NOISE))

    def modules(self) -> dict[str, nn.Module]:
        """Return the critics and both targets."""
        targets = {"critic_target": self._critic_target.module, "policy_target": self._policy_target.module}
        return {"critics": self._critics, **targets}

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return Adam with a group for each objective."""
        lr = self.config.lr
        networks = {"critic": (self._critics, self.config.critic_lr or lr), "policy": (policy, lr)}
        return Adam(
            [
                {"params": [p for p in network.parameters() if p.requires_grad], "lr": rate, "name": name}
                for name, (network, rate) in networks.items()
            ]
        )

    def warm_up(self) -> bool:
        """Fill the buffer with the first steps."""
        return self._collector.warm_up(self.config.initial_buffer_size)

    def batches(self) -> Iterator[Batch]:
        """Step the environments; yield batches for the critics and, after every few of them, for the policy."""
        config, run = self.config, self._run
        run.learner.scale_lr(scheduled(config.lr_schedule, run.fraction_done))
        for _ in range(self._collector.collect()):
            batch = self._collector.sample(config.batch_size, config.gamma, config.n_step)
            yield replace(batch, objective="critic", group="critic")
            self._updates += 1
            if self._updates % config.policy_delay == 0:
                yield replace(batch, objective="policy", group="policy")
                self._critic_target.follow(config.tau)
                self._policy_target.follow(config.tau)

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the loss of the objective that the batch names."""
        features = self._critics.features(policy.normalized(batch.obs))
        if batch.objective == "policy":
            value = self._critics.values(features.detach(), self._act(policy, batch.obs), frozen=True)[0]
            return Loss(-value.mean(), {"policy": -value.detach().mean()})
        values = self._critics.values(features, self._actions.canonical(batch.actions)).squeeze(-1)
        loss = (values - self._target(policy, batch)).square().mean(-1).sum()
        return Loss(loss, {"critic": loss.detach(), "q": values.detach().mean()})

    @torch.no_grad()
    def _target(self, policy: Policy, batch: Batch) -> Tensor:
        """Return r + discount * the least target value of the target policy's action with noise, [B] (Algorithm 1)."""
        config, critics = self.config, self._critic_target.module
        actions = self._act(self._policy_target.module, batch.next_obs)
        if config.target_noise:
            noise = torch.randn(actions.shape, generator=self._noise, device=actions.device) * config.target_noise
            limit = config.target_noise_clip
            actions = (actions + noise.clamp_(-limit, limit)).clamp_(-1, 1)
        features = critics.features(policy.normalized(batch.next_obs))
        least = critics.values(features, actions).squeeze(-1).amin(0)
        return torch.addcmul(batch.extra["reward"], batch.extra["discount"], least)

    def _act(self, policy: Policy, obs: TensorTree) -> Tensor:
        """Return the policy's most likely actions in [-1, 1], [B, d]."""
        parts = policy.distribution(obs).parts
        return torch.cat([torch.tanh(parts[key].mode()) for key in self._actions.boxes], -1)

    @hookimpl
    def on_checkpoint(self, run: Run, path: Path) -> None:
        """Delete replay files that no checkpoint needs any more."""
        self._collector.prune()

    @property
    def disk_bytes(self) -> int:
        """Return the bytes that the replay data may reach."""
        return self._collector.disk_bytes

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs besides networks and optimizer."""
        return {"collector": self._collector.state(), "noise": self._noise.get_state(), "updates": self._updates}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._collector.load_state(state["collector"])
        self._noise.set_state(state["noise"])
        self._updates = state["updates"]


class DDPG(TD3):
    """Deep deterministic policy gradient: one critic, no smoothing, no delay."""

    Config = DDPGConfig
    config: DDPGConfig
