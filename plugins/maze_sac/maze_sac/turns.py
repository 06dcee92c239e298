"""What SAC needs of actions where several actors act: in each row only the action of its actor counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from maze_actors.routes import SCALAR, Blank
from maze_offpolicy import JointActions, joined
from torch import Tensor

from maze_sac.actions import Decision, draw, log_probabilities

if TYPE_CHECKING:
    from collections.abc import Callable

    from maze_actors.routes import RoutedLeaf

    from maze_core import TensorTree, TreeDistribution


def decide_in_turns(actions: JointActions, distribution: TreeDistribution, noise: TensorTree) -> Decision:
    """Return the policy's decision for the actor of each row: zeros and no probability for the actions of others."""
    samples, terms, probabilities = [], [], []
    for key, scale in actions.boxes.items():
        leaf: Any = distribution.parts[key]
        drawn = {group: draw(part, leaf.route.take(group, noise[key]), scale) for group, part in leaf.parts.items()}
        samples.append(leaf.route.put({g: each[0] for g, each in drawn.items()}, Blank((scale.size,), torch.float32)))
        terms.append(leaf.route.put({g: each[1] for g, each in drawn.items()}, SCALAR))
    for key, sizes in actions.choices.items():
        leaf = distribution.parts[key]
        logs = {group: log_probabilities(part, sizes) for group, part in leaf.parts.items()}
        probabilities.append(_put(leaf, logs, torch.exp, Blank((sum(sizes),), torch.float32)))
        terms.append(_put(leaf, logs, lambda log: (log.exp() * log).sum(-1), SCALAR))
    choices = joined(probabilities)
    if actions.has_idle and choices is not None:
        choices = torch.cat((choices, (choices.sum(-1, keepdim=True) == 0).float()), -1)
    return Decision(joined(samples), choices, sum(terms[1:], terms[0]))


def _put(leaf: RoutedLeaf, logs: dict[int, Tensor], of: Callable[[Tensor], Tensor], blank: Blank) -> Tensor:
    return leaf.route.put({group: of(log) for group, log in logs.items()}, blank)
