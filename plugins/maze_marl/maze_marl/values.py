"""The values of agents' choices: the logits of the policy that acts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_actors.routes import SCALAR, RoutedLeaf

from maze_core import ConfigError
from maze_core.models.distributions import Categorical

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core import Policy, TensorTree


def values_of(policy: Policy, obs: TensorTree, actions: TensorTree) -> Tensor:
    """Return the values of actions, one for each row, [B]; of several choices in a row, the sum of theirs."""
    total: Tensor = sum(_value(leaf, actions[key]) for key, leaf in policy.distribution(obs).parts.items())  # type: ignore[assignment]
    return total


def _value(leaf: Any, choice: Tensor) -> Tensor:
    if isinstance(leaf, RoutedLeaf):  # each group of agents has a network of its own; other rows have no such choice
        own = {group: _value(part, leaf.route.take(group, choice)) for group, part in leaf.parts.items()}
        return leaf.route.put(own, SCALAR)
    if not isinstance(leaf, Categorical):
        raise ConfigError(
            f"the logits of choices are learnt as values, and the model has a {type(leaf).__name__}", "model"
        )
    return leaf.logits.gather(-1, choice.long().unsqueeze(-1)).squeeze(-1)
