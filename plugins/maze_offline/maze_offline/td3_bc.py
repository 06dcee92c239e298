"""TD3 with behavioural cloning, from recorded trajectories (Fujimoto and Gu, arXiv 2106.06860)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor, nn

from maze_core.data.batch import Batch, Loss, TensorTree
from maze_core.models.critics import build_critics
from maze_core.models.joint_actions import JointActions, check_squashed
from maze_core.plugins.hookspecs import hookimpl
from maze_core.seeding import Purpose, integer_seed
from maze_core.training.adam import Adam
from maze_core.training.algorithm import Algorithm
from maze_core.training.process_state import isolated_rng
from maze_core.training.schedules import scheduled
from maze_core.training.targets import Target
from maze_offline.config import TD3BCConfig
from maze_offline.losses import squared_errors, value_weight
from maze_offline.recorded import RecordedSteps, check_without_steps

if TYPE_CHECKING:
    from maze_core.config.run import AlgorithmConfig, RunConfig
    from maze_core.models.policy import Policy
    from maze_core.training.adam import Optimizer
    from maze_core.training.run import Run

_CRITICS, _TARGET_NOISE = 1, 2
# Separate random streams of one purpose.


class TD3BC(Algorithm):
    """TD3 with behavioural cloning, offline, for Box actions with finite bounds."""

    Config: ClassVar[type[AlgorithmConfig]] = TD3BCConfig
    config: TD3BCConfig
    needs_critic = False
    action_spaces = (Box, Dict)
    columns: ClassVar[Mapping[str, str]] = {
        "loss/critic": "critic", "loss/policy": "policy", "loss/cloning": "cloning", "loss/q": "q",
    }  # fmt: skip
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {
            "distribution": "squashed_gaussian",
            "hidden": [256, 256],
            "activation": "relu",
            "normalize_observations": True,
        }
    }

    def check(self, config: RunConfig) -> None:
        """Refuse runs counted in environment steps."""
        check_without_steps(config)

    def setup(self, run: Run) -> None:
        """Load the data; build critics and targets."""
        config, policy = self.config, run.policy
        self._run = run
        self._actions = JointActions(run.observation_space, run.action_space).to(run.device)
        check_squashed(policy, self._actions, config.name)
        self._steps = RecordedSteps(run, config)
        for name, parameter in policy.named_parameters():
            if name.endswith("log_std"):
                parameter.requires_grad_(False)  # the policy is deterministic
        layers = config.critic_hidden, config.critic_activation
        with isolated_rng(integer_seed(run.seed, Purpose.MODEL_INIT, _CRITICS)):
            self._critics = build_critics(policy, self._actions.box_size, 1, *layers, config.n_critics).to(run.device)
        self._critic_target, self._policy_target = Target(self._critics), Target(policy)
        self._policy_target.module.normalizer = policy.normalizer  # its statistics belong to both networks
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

    def batches(self) -> Iterator[Batch]:
        """Yield a batch of recorded steps for the critics and, after every few of them, for the policy."""
        config, run = self.config, self._run
        if run.updates == 0:
            self._policy_target.follow(1.0)  # parameters of another run are loaded after `setup`
        run.learner.scale_lr(scheduled(config.lr_schedule, run.fraction_done))
        batch = self._steps.sample(config.batch_size, config.gamma)
        yield replace(batch, objective="critic", group="critic")
        if (run.updates + 1) % config.policy_delay == 0:
            yield replace(batch, objective="policy", group="policy")
            self._critic_target.follow(config.tau)
            self._policy_target.follow(config.tau)

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the loss of the objective that the batch names."""
        features = self._critics.features(policy.normalized(batch.obs))
        recorded = cast("Tensor", self._actions.canonical(batch.actions))  # every leaf is a Box
        if batch.objective == "policy":
            acted = self._act(policy, batch.obs)
            value = self._critics.values(features.detach(), acted, frozen=True)[0]
            cloning = (acted - recorded).square().mean()
            total = cloning - value_weight(value, self.config.alpha) * value.mean()
            return Loss(total, {"policy": total.detach(), "cloning": cloning.detach()})
        values = self._critics.values(features, recorded).squeeze(-1)
        loss = squared_errors(values, self._target(policy, batch))
        return Loss(loss, {"critic": loss.detach(), "q": values.detach().mean()})

    @torch.no_grad()
    def _target(self, policy: Policy, batch: Batch) -> Tensor:
        """Return r + discount * the least target value of the target policy's action with noise, [B]."""
        config, critics = self.config, self._critic_target.module
        actions = self._act(self._policy_target.module, batch.next_obs)
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

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs besides networks and optimizer."""
        return {"steps": self._steps.state(), "noise": self._noise.get_state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._steps.load_state(state["steps"])
        self._noise.set_state(state["noise"])
