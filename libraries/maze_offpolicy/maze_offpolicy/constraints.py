"""What an algorithm that learns from replay asks where a run has constraints; a plugin of the run answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from maze_onpolicy.constraints import answer_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from maze_core import Batch, Policy, TensorTree
    from maze_core.envs.vector import Episode
    from maze_core.plugins.hookspecs import Run
    from maze_offpolicy.models.joint_actions import JointActions

    Expected = Callable[[Tensor], Tensor]
    # Returns the expected values [K, B] of decisions from those of all choices [K, B, C].


class CostObjective(Protocol):
    """The part of constraints in a loss. It never changes, so that steps with it can be compiled."""

    def error(self, policy: Policy, batch: Batch, following: Tensor | None, expected: Expected) -> Tensor:
        """Return the critics' error on a batch, shape (), for the decisions that follow: Box actions [B, d]."""

    def values(self, policy: Policy, obs: TensorTree, box: Tensor | None, expected: Expected) -> Tensor:
        """Return the expected costs of decisions, [K, B], differentiable in them alone."""

    def penalized(self, loss: Tensor, costs: Tensor) -> Tensor:
        """Return the policy's loss with the price of such costs."""


class ReplayCosts(Protocol):
    """The costs of replayed transitions."""

    critics: nn.Module
    """The critics of costs, which learn as those of rewards do."""
    loss: CostObjective
    """Their part of the loss."""

    def modules(self) -> dict[str, nn.Module]:
        """Return what the algorithm has among its `modules()`."""

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Move the multipliers by episodes that ended while collecting."""

    def weigh(self, values: Tensor, costs: Tensor) -> None:
        """Take note of values [B] and costs [K, B] of the policy's decisions, after a step."""

    def follow(self, tau: float) -> None:
        """Move the targets of the critics."""


def replay_costs(run: Run, actions: JointActions) -> ReplayCosts | None:
    """Return what a plugin of a run answers to `replay_costs(run, actions)`; None: the run has no constraints.

    To be called where the critics are built.
    """
    costs: ReplayCosts | None = answer_of(run, "replay_costs", actions)
    return costs
