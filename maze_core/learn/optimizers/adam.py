"""Adam as one fused kernel, without the overhead of `torch.optim`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor

from maze_core.learn.optimizers.grouped import GroupedOptimizer, Lists

_OF_A_STEP = ("exp_avg", "exp_avg_sq", "step")


class Optimizer(Protocol):
    """The optimizer interface that the learner uses; optimizers of `torch.optim` satisfy it."""

    param_groups: list[dict[str, Any]]
    """Each has `params` and `lr`; schedules change `lr`."""

    def step(self) -> Any:
        """Update the parameters from their gradients; those without a gradient stay as they are."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything a resumed run needs."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of `state_dict()`."""


class Adam(GroupedOptimizer):
    """Adam (Kingma and Ba, arXiv 1412.6980): equals `torch.optim.Adam(fused=True)` bit for bit, state dict included.

    It calls the same kernel directly.

    Args:
        parameters: tensors, or groups as mappings with `params` and optionally `lr`.
        lr: learning rate of groups that set none.
        betas: decay of the first and the second moment.
        eps: added to the root of the second moment.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self._rates: dict[int, tuple[float, Tensor]] = {}
        """The learning rates on the device, by the ids of their groups: only once `rates_on_device` was called."""
        super().__init__(parameters, lr=lr, betas=betas, eps=eps)

    def rates_on_device(self) -> None:
        """From now on read the learning rates from tensors, so that a recorded step sees their changes."""
        for group, (parameters, _) in zip(self.param_groups, self._lists, strict=True):
            if parameters:
                rate = torch.tensor(float(group["lr"]), device=parameters[0].device)
                self._rates[id(group)] = float(group["lr"]), rate

    def refresh_rates(self) -> None:
        """Write the learning rates that have changed to the device."""
        for group in self.param_groups:
            if id(group) in self._rates and self._rates[id(group)][0] != group["lr"]:
                rate = self._rates[id(group)][1].fill_(group["lr"])
                self._rates[id(group)] = group["lr"], rate

    def tensors(self) -> list[Tensor]:
        """Return all tensors that a step changes, but the parameters."""
        return [leaf for _, state in self._lists for name in _OF_A_STEP for leaf in state.get(name, [])]

    def _listed(self) -> list[Lists]:
        lists = super()._listed()
        for members, state in lists:
            if members:
                self._count_together(members, state)
        return lists

    def _count_together(self, parameters: list[Tensor], state: dict[str, list[Tensor]]) -> None:
        """Keep the numbers of steps of a group in one tensor: adding to each of them takes as long as the kernel."""
        counts = torch.zeros(len(parameters), device=parameters[0].device)
        state["counts"], state["step"] = [counts], list(counts.unbind())
        for parameter, step in zip(parameters, state["step"], strict=True):
            self._state[parameter]["step"] = step

    def _new_state(self, parameter: Tensor) -> dict[str, Tensor]:
        return {
            "step": torch.zeros((), device=parameter.device),
            "exp_avg": torch.zeros_like(parameter, requires_grad=False),
            "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
        }

    def _update(
        self, group: dict[str, Any], parameters: list[Tensor], gradients: list[Tensor], state: dict[str, list[Tensor]]
    ) -> None:
        for count in state.get("counts", state["step"]):  # without a gradient for each, one by one
            count += 1
        rate = self._rates.get(id(group))
        torch._fused_adam_(
            parameters,
            gradients,
            state["exp_avg"],
            state["exp_avg_sq"],
            [],
            state["step"],
            lr=group["lr"] if rate is None else rate[1],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=0.0,
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )
