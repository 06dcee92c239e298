"""TD3 with behavioural cloning, from recorded trajectories (Fujimoto and Gu, arXiv 2106.06860)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from gymnasium.spaces import Box, Dict
from maze_offpolicy import (
    DeterministicTargets,
    JointActions,
    check_deterministic,
    critic_and_policy_optimizer,
    critics_of,
    most_likely,
)
from maze_recordings.recorded_steps import RecordedSteps, check_without_steps
from torch import Tensor, nn

from maze_core import Algorithm, Batch, Loss, Purpose, hookimpl, torch_generator
from maze_offline.config import TD3BCConfig
from maze_offline.losses import squared_errors, value_weight

if TYPE_CHECKING:
    from maze_core import AlgorithmConfig, Optimizer, Policy, Run, RunConfig

_TARGET_NOISE = 2
# Separates its random numbers from others of the same purpose.


class TD3BC(Algorithm):
    """TD3 with behavioural cloning, offline, for Box actions with finite bounds."""

    Config: ClassVar[type[AlgorithmConfig]] = TD3BCConfig
    config: TD3BCConfig
    needs_critic = False
    supports_agents = True
    action_spaces = (Box, Dict)
    calls = ("compute_loss",)
    columns: ClassVar[Mapping[str, str]] = {
        "loss/critic": "critic", "loss/policy": "policy", "loss/cloning": "cloning", "loss/q": "q",
    }  # fmt: skip
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {
            "distribution": "squashed_gaussian",
            "hidden": [256, 256],
            "activation": "relu",
            "normalize_observations": True,
        },
        "callbacks": {"early_stopping": {"patience": 0}},
    }

    def check(self, config: RunConfig) -> None:
        """Refuse runs counted in environment steps."""
        check_without_steps(config)

    def setup(self, run: Run) -> None:
        """Load the data; build critics and targets."""
        config, policy = self.config, run.policy
        self._run = run
        self.actions = JointActions(run.observation_space, run.action_space).to(run.device)
        check_deterministic(policy, self.actions, config.name)
        self._steps = self.keep("steps", RecordedSteps(run, config.dataset, config.n_workers))
        self.critics = critics_of(run, self.actions, config)
        noise = torch_generator(run.seed, Purpose.POLICY_NOISE, _TARGET_NOISE, device=run.device)
        self.noise = self.keep("noise", noise)
        self.targets = DeterministicTargets(self.critics, policy, self.actions, self.noise)

    def modules(self) -> dict[str, nn.Module]:
        """Return the critics and both targets."""
        return {"critics": self.critics, **self.targets.modules()}

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return Adam with a group for each objective."""
        return critic_and_policy_optimizer(self.critics, policy, self.config.lr, self.config.critic_lr)

    def batches(self) -> Iterator[Batch]:
        """Yield a batch of recorded steps for the critics and, after every few of them, for the policy."""
        config, run = self.config, self._run
        batch = self._steps.sample(config.batch_size, config.gamma)
        yield replace(batch, objective="critic", group="critic")
        if (run.updates + 1) % config.policy_delay == 0:
            yield replace(batch, objective="policy", group="policy")
            self.targets.follow(config.tau)

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the loss of the objective that the batch names."""
        config, features = self.config, self.critics.features(policy.normalized(batch.obs))
        recorded = cast("Tensor", self.actions.canonical(batch.actions))  # every leaf is a Box
        if batch.objective == "policy":
            acted = most_likely(policy, batch.obs, self.actions)
            value = self.critics.values(features.detach(), acted, frozen=True, first=1)[0]
            cloning = (acted - recorded).square().mean()
            total = cloning - value_weight(value, config.alpha) * value.mean()
            return Loss(total, {"policy": total.detach(), "cloning": cloning.detach()})
        values = self.critics.values(features, recorded).squeeze(-1)
        target = self.targets.values(policy, batch, config.target_noise, config.target_noise_clip)
        loss = squared_errors(values, target)
        return Loss(loss, {"critic": loss.detach(), "q": values.detach().mean()})
