"""What passes between an algorithm, the loop and the hooks: a batch of rows, and the loss computed from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

TensorTree = dict[str, Tensor]
"""A flat dict of tensors, the torch twin of `Tree`."""


@dataclass(slots=True)
class Batch:
    """Rows to learn from; every tensor has B rows in its first dimension.

    An algorithm fills what its loss needs and puts the rest (targets, importance weights, noise indices) in
    `extra`. A loss wrapper may rely on `obs`, and on `actions` where the algorithm learns from actions.
    """

    obs: TensorTree
    """Leaves [B, …] in storage dtype (uint8 images stay uint8)."""
    actions: TensorTree
    """Leaves [B, …], as the action distribution sampled them."""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loss:
    """A scalar objective to minimise and its parts, for the log."""

    total: Tensor
    """Shape (), differentiable."""
    metrics: dict[str, Tensor] = field(default_factory=dict)
    """Detached scalars by name; they are averaged over the epoch and logged as `loss/NAME`."""

    def plus(self, name: str, term: Tensor) -> Loss:
        """This loss with a term added to the total and to the metrics."""
        return Loss(self.total + term, {**self.metrics, name: term.detach()})
