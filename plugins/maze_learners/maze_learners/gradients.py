"""The gradients of some parameters as one tensor, in which those of several learners are added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from maze_core.learn.learner import backward

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core import Loss


class Gradients:
    """The gradients of some parameters, in one tensor in which those of all learners can be added up.

    Behind the gradients it has a number for each parameter, which is 0 where no learner has a gradient for it, and the
    total loss.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = list(parameters)
        self._sizes = [p.numel() for p in self.parameters]
        self._dtype = torch.float32
        for parameter in self.parameters:
            self._dtype = torch.promote_types(self._dtype, parameter.dtype)

    def clear(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def compute(self, loss: Loss, numbers: Sequence[int] | None) -> None:
        """Compute the gradients of a loss, for the parameters with these numbers or for all."""
        self.clear()
        backward(loss.total, None if numbers is None else [self.parameters[number] for number in numbers])

    def weighted(self, total: Tensor | None, weight: float, device: torch.device) -> Tensor:
        """Return gradients and loss, multiplied by a weight, as one tensor on a device."""
        count = len(self.parameters)
        flat = torch.zeros(sum(self._sizes) + count + 1, dtype=self._dtype, device=device)
        *views, has, loss = torch.split(flat, [*self._sizes, count, 1])
        there = [number for number, parameter in enumerate(self.parameters) if parameter.grad is not None]
        for number in there:
            views[number].copy_(self._gradient(number).reshape(-1))
        if total is not None:
            loss.copy_(total.detach())
        flat.mul_(weight)
        has[there] = 1.0
        return flat

    def take(self, flat: Tensor) -> Tensor:
        """Set the gradients to those of a sum of such tensors; return the total loss, shape ()."""
        *views, has, loss = torch.split(flat, [*self._sizes, len(self.parameters), 1])
        for parameter, view, some in zip(self.parameters, views, has.tolist(), strict=True):
            if some:
                gradient = view.view(parameter.shape).to(parameter.device, parameter.dtype)
                if parameter.grad is None:
                    parameter.grad = gradient.clone()
                else:
                    parameter.grad.copy_(gradient)
        total: Tensor = loss[0]
        return total.to(self.parameters[0].device)

    def _gradient(self, number: int) -> Tensor:
        gradient = self.parameters[number].grad
        if gradient is None:
            raise ValueError(f"parameter {number} has no gradient")
        return gradient
