"""Gradients: the backward pass, gradients that are written out in its place, and the limit of their norm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Variable

Gradients = Callable[[float], list[Tensor]]
"""Returns the gradients of the parameters, times a factor."""


def backward(total: Tensor, parameters: Iterable[Tensor] | None = None) -> None:
    """`total.backward()` without its bookkeeping for torch's compiler, which costs as much as ten small operations.

    With `parameters` only these get gradients, and of them only those that are not frozen. Where nothing can get a
    gradient, nothing happens.
    """
    if parameters is None and set_written_out(total):
        return
    inputs = () if parameters is None else tuple(p for p in parameters if p.requires_grad)
    if not total.requires_grad or (parameters is not None and not inputs):
        return  # without inputs torch would compute the gradients of everything
    Variable._execution_engine.run_backward(
        (total,), (torch.ones_like(total),), False, False, inputs, allow_unreachable=True, accumulate_grad=True
    )


def gradient_norm(gradients: list[Tensor]) -> Tensor:
    """Return the Euclidean norm of all gradients together, shape ()."""
    # One copy and one reduction take half the time of a norm per tensor for small networks.
    norm: Tensor = torch._C._nn.flatten_dense_tensors(gradients).norm()
    return norm


def clip_gradients(gradients: list[Tensor], norm: Tensor, limit: float) -> None:
    """Scale gradients in place so that their global norm is at most `limit`."""
    torch._foreach_mul_(gradients, clip_factor(norm, limit))


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
        # Value, function and list are no tensors; each parameter gets its gradient times that of the scalar.
        return (None, None, None, *ctx.gradients(slopes[0].item()))
