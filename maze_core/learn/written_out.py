"""A scalar with gradients that are written out, as a part of torch's graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Gradients = Callable[[float], list[Tensor]]
"""Returns the gradients of the parameters, times a factor."""


def written_out(value: float, gradients: Gradients, parameters: Sequence[Tensor]) -> Tensor:
    """Return a scalar that has these gradients with respect to `parameters`; it can be a part of any graph."""
    apply: Callable[..., Tensor] = _WrittenOut.apply
    return apply(value, gradients, parameters, *parameters)


def is_written_out(total: Tensor) -> bool:
    """Return True if a scalar is the result of `written_out` itself."""
    return getattr(total.grad_fn, "_forward_cls", None) is _WrittenOut


def set_written_out(total: Tensor) -> bool:
    """Set the gradients of the parameters without torch's engine, if `total` is the result of `written_out` itself.

    Returns:
        Whether it was. Gradients that were there before are replaced.
    """
    if not is_written_out(total):
        return False
    node: Any = total.grad_fn  # the context of the function's call
    for parameter, gradient in zip(node.parameters, node.gradients(1.0), strict=True):
        parameter.grad = gradient
    return True


class _WrittenOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: float, gradients: Gradients, parameters: Sequence[Tensor], *_: Tensor) -> Tensor:
        ctx.gradients, ctx.parameters = gradients, parameters
        return torch.tensor(value, dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        return (None, None, None, *ctx.gradients(slopes[0].item()))
