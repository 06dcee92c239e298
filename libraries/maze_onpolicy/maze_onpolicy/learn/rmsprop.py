"""RMSprop without the overhead of `torch.optim`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from maze_core.learn.optimizers import GroupedOptimizer


class RMSprop(GroupedOptimizer):
    """Gradient descent in units of the gradient's running root mean square: the optimizer of the paper of A2C.

    Equals `torch.optim.RMSprop` without momentum bit for bit. Its mean starts at 0 without a correction, so the first
    steps are up to 1/√(1 - alpha) times as long.

    Args:
        parameters: tensors, or groups as mappings with `params` and optionally `lr`.
        lr: learning rate of groups that set none.
        alpha: decay of the mean square.
        eps: added to the root of the mean square.
    """

    missing = ("momentum", "centered", "weight_decay", "maximize")

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        alpha: float = 0.99,
        eps: float = 1e-5,
    ) -> None:
        super().__init__(parameters, lr=lr, alpha=alpha, eps=eps)

    def _new_state(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"square_avg": torch.zeros_like(parameter, requires_grad=False)}

    def _update(
        self, group: dict[str, Any], parameters: list[Tensor], gradients: list[Tensor], state: dict[str, list[Tensor]]
    ) -> None:
        squares = state["square_avg"]
        torch._foreach_mul_(squares, group["alpha"])
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - group["alpha"])
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, group["eps"])
        torch._foreach_addcdiv_(parameters, gradients, roots, value=-group["lr"])
