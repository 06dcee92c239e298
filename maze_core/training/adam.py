"""Adam as one fused kernel, without the overhead of `torch.optim`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor


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


class Adam:
    """Adam (Kingma and Ba, arXiv 1412.6980): equals `torch.optim.Adam(fused=True)` bit for bit, state dict included.

    It calls the same kernel directly. The first optimizer of `torch.optim` in a process loads torch's compiler, which
    costs 75 MB of memory and a second, and each of its steps costs three times the kernel for a small network.

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
        items: list[Any] = list(parameters)
        groups: list[dict[str, Any]] = items if items and isinstance(items[0], dict) else [{"params": items}]
        self.param_groups: list[dict[str, Any]] = [
            {"lr": lr, "betas": betas, "eps": eps, **group, "params": list(group["params"])} for group in groups
        ]
        self._state = {p: _Moments(p) for group in self.param_groups for p in group["params"]}
        self._lists = [self._lists_of(group["params"]) for group in self.param_groups]

    def _lists_of(self, parameters: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
        """Return parameters, moments and steps as the lists that the kernel takes."""
        moments = [self._state[p] for p in parameters]
        return parameters, [m.first for m in moments], [m.second for m in moments], [m.step for m in moments]

    @torch.no_grad()
    def step(self) -> None:
        """Take one step for all parameters that have a gradient."""
        for group, lists in zip(self.param_groups, self._lists, strict=True):
            gradients = [p.grad for p in group["params"]]
            if any(gradient is None for gradient in gradients):
                lists = self._lists_of([p for p in group["params"] if p.grad is not None])
                gradients = [gradient for gradient in gradients if gradient is not None]
            parameters, first, second, steps = lists
            if not parameters:
                continue
            torch._foreach_add_(steps, 1)
            torch._fused_adam_(
                parameters,
                gradients,
                first,
                second,
                [],
                steps,
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=0.0,
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the state in the form of `torch.optim.Adam`: moments by parameter number, and the groups' settings."""
        numbers = {p: number for number, p in enumerate(self._state)}
        state = {
            numbers[p]: {"step": m.step, "exp_avg": m.first, "exp_avg_sq": m.second} for p, m in self._state.items()
        }
        groups = [{**group, "params": [numbers[p] for p in group["params"]]} for group in self.param_groups]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of `state_dict()`.

        Raises:
            ValueError: the state belongs to other parameters.
        """
        saved = state_dict["state"]
        if len(saved) != len(self._state) or len(state_dict["param_groups"]) != len(self.param_groups):
            raise ValueError("the optimizer's saved state has another number of parameters")
        for number, (parameter, moments) in enumerate(self._state.items()):
            if saved[number]["exp_avg"].shape != parameter.shape:
                raise ValueError(f"the optimizer's state of parameter {number} has another shape")
            moments.step.copy_(saved[number]["step"])
            moments.first.copy_(saved[number]["exp_avg"])
            moments.second.copy_(saved[number]["exp_avg_sq"])
        for group, settings in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({key: value for key, value in settings.items() if key != "params"})


class _Moments:
    """The state that Adam keeps for one parameter."""

    def __init__(self, parameter: Tensor) -> None:
        self.step = torch.zeros((), device=parameter.device)
        self.first = torch.zeros_like(parameter, requires_grad=False)
        self.second = torch.zeros_like(parameter, requires_grad=False)
