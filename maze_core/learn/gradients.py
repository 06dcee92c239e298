"""Gradients that are written out in the place of a backward pass, and the limit of their norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Gradients = Callable[[float], list[Tensor]]
"""Returns the gradients of the parameters, times a factor."""


def clip_factor(norm: Tensor, limit: float) -> Tensor:
    """Return what gradients of this global norm are multiplied by, so that it is at most `limit`; both shape ()."""
    # As `torch.nn.utils.clip_grad_norm_` computes it; the small number keeps a norm of 0 from dividing by it.
    return (limit / (norm + 1e-6)).clamp(max=1.0)


def written_out(value: float, gradients: Gradients, parameters: Sequence[Tensor]) -> Tensor:
    """Return a scalar that has these gradients with respect to `parameters`; it can be a part of any graph."""
    apply: Callable[..., Tensor] = _WrittenOut.apply
    return apply(value, gradients, parameters, *parameters)


def is_written_out(total: Tensor) -> bool:
    """Return True if a scalar is the result of `written_out` itself."""
    return getattr(total.grad_fn, "_forward_cls", None) is _WrittenOut


class _WrittenOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: float, gradients: Gradients, parameters: Sequence[Tensor], *_: Tensor) -> Tensor:
        ctx.gradients, ctx.parameters = gradients, parameters
        return torch.tensor(value, dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        # Value, function and list are no tensors; each parameter gets its gradient times that of the scalar.
        return (None, None, None, *ctx.gradients(slopes[0].item()))
