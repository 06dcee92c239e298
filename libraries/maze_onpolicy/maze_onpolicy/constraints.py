"""What an on-policy algorithm asks where a run has constraints; a plugin of the run answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import nn

    from maze_core import Batch, Loss, Policy, Rollout
    from maze_core.plugins.hookspecs import Run


class CostLoss(Protocol):
    """What critics of costs add to a loss. It never changes, so that steps with it can be compiled."""

    def added_to(self, loss: Loss, policy: Policy, batch: Batch) -> Loss:
        """Return the loss with the critics' errors on a batch of `advantage_rows`."""


class RolloutCosts(Protocol):
    """The costs of rollouts."""

    critics: nn.Module
    """The critics of costs, which the algorithm has among its `modules()`."""
    loss: CostLoss
    """Their part of the loss."""

    def observe(self, rollout: Rollout) -> None:
        """Move the multipliers, and add to a rollout what its costs are."""

    def penalize(self, rows: Batch) -> None:
        """Replace the advantages of rewards in the rows of that rollout by those of rewards less the price of costs."""


def rollout_costs(run: Run) -> RolloutCosts | None:
    """Return what a plugin of a run answers to `rollout_costs(run)`; None: the run has no constraints.

    To be called in `setup_loss`. The result goes to `advantage_rows`.
    """
    costs: RolloutCosts | None = answer_of(run, "rollout_costs")
    return costs


def answer_of(run: Run, question: str, *arguments: Any) -> Any:
    """Return what the first plugin of a run that has a method `question` answers; None: no plugin has it."""
    asked = (getattr(each.plugin, question, None) for each in run.hooks.members)
    answer = next((each for each in asked if each is not None), None)
    return None if answer is None else answer(run, *arguments)


def cost_modules(costs: RolloutCosts | None) -> dict[str, nn.Module]:
    """Return the critics of costs, if there are some, for `Algorithm.modules()`."""
    return {} if costs is None else {"cost_critics": costs.critics}
