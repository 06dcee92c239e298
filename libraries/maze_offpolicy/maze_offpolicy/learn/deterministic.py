"""What algorithms with a deterministic policy share: TD3, DDPG, and TD3 with behavioural cloning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from maze_core import Adam
from maze_offpolicy.learn.targets import Itself, Target
from maze_offpolicy.models.joint_actions import JointActions, bounded_mode, check_reparametrised

if TYPE_CHECKING:
    from maze_core import Batch, Policy, TensorTree
    from maze_offpolicy.models.critics import StateActionCritics


def check_deterministic(policy: Policy, actions: JointActions, name: str) -> None:
    """Check that the policy's Box actions are bounded, and keep its standard deviations from learning.

    `name`: the algorithm, for the message.

    Raises:
        ConfigError: they are not, or not differentiable.
    """
    check_reparametrised(policy, actions, name)
    for parameter_name, parameter in policy.named_parameters():
        if parameter_name.endswith("log_std"):
            parameter.requires_grad_(False)


def most_likely(policy: Policy, obs: TensorTree, actions: JointActions) -> Tensor:
    """Return the policy's most likely actions in [-1, 1], [B, d]."""
    parts = policy.distribution(obs).parts
    return torch.cat([bounded_mode(parts[key], scale) for key, scale in actions.boxes.items()], -1)


class DeterministicTargets:
    """The target networks of critics and of a deterministic policy (Fujimoto et al., arXiv 1802.09477, Algorithm 1).

    Args:
        critics: those that learn.
        policy: the one that learns.
        actions: all leaves are Boxes.
        noise: the noise on the target policy's actions is drawn from it.
        own_policy: False: the policy that learns is its own target.
    """

    def __init__(
        self,
        critics: StateActionCritics,
        policy: Policy,
        actions: JointActions,
        noise: torch.Generator,
        *,
        own_policy: bool = True,
    ) -> None:
        self.critics, self.policy = Target(critics), Target(policy) if own_policy else Itself(policy)
        self.policy.module.normalizer = policy.normalizer  # its statistics belong to both networks
        self._actions, self._noise = actions, noise

    def modules(self) -> dict[str, nn.Module]:
        """Return the networks that follow others, for `Algorithm.modules()`."""
        own = {"policy_target": self.policy.module} if isinstance(self.policy, Target) else {}
        return {"critic_target": self.critics.module, **own}

    def follow(self, tau: float) -> None:
        """Move them towards the networks that learn."""
        self.critics.follow(tau)
        if isinstance(self.policy, Target):
            self.policy.follow(tau)

    @torch.no_grad()
    def actions(self, batch: Batch, noise: Any, limit: Any) -> Tensor:
        """Return the target policy's actions with noise for what follows, in [-1, 1], [B, d]; arguments as `values`."""
        actions = most_likely(self.policy.module, batch.next_obs, self._actions)
        if isinstance(noise, Tensor) or noise:
            drawn = torch.randn(actions.shape, generator=self._noise, device=actions.device) * noise
            actions = (actions + drawn.clamp_(-limit, limit)).clamp_(-1, 1)
        return actions

    @torch.no_grad()
    def values(self, policy: Policy, batch: Batch, noise: Any, limit: Any) -> Tensor:
        """Return r + discount * the least target value of the target policy's action with noise, [B].

        Args:
            policy: normalises the observations.
            batch: transitions, with `reward` and `discount`.
            noise: standard deviation in half-ranges; 0: none is drawn. A tensor where it is an input of recorded steps.
            limit: the largest noise, in half-ranges.
        """
        critics = self.critics.module
        actions = self.actions(batch, noise, limit)
        features = critics.features(policy.normalized(batch.next_obs))
        least = critics.values(features, actions).squeeze(-1).amin(0)
        return torch.addcmul(batch.extra["reward"], batch.extra["discount"], least)


def critic_and_policy_optimizer(
    critics: nn.Module, policy: nn.Module, lr: float, critic_lr: float | None = None, weight_decay: float = 0.0
) -> Adam:
    """Return Adam with the groups `critic` and `policy`, for objectives that take turns.

    `critic_lr` None: `lr`. With a `weight_decay` it is AdamW (Loshchilov and Hutter, arXiv 1711.05101).
    """
    decay = {"weight_decay": weight_decay, "decoupled_weight_decay": True} if weight_decay else {}
    networks = {"critic": (critics, lr if critic_lr is None else critic_lr), "policy": (policy, lr)}
    return Adam(
        [
            {"params": [p for p in network.parameters() if p.requires_grad], "lr": rate, "name": name, **decay}
            for name, (network, rate) in networks.items()
        ]
    )
