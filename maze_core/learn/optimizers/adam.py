"""Adam as one fused kernel, without the overhead of `torch.optim`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from maze_core.learn.optimizers.grouped import GroupedOptimizer, Lists

_WHOLE = {"exp_avg": "means", "exp_avg_sq": "squares", "step": "counts"}
"""What a step changes beside the parameters, and the names of the tensors that have those of a whole group."""
_DECOUPLED = "decoupled_weight_decay"


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
        weight_decay: so many times the parameter is added to its gradient.

    A parameter of a group with `decoupled_weight_decay` true shrinks by `lr * weight_decay` instead, as with
    `torch.optim.AdamW` (Loshchilov and Hutter, arXiv 1711.05101).
    """

    missing = ("amsgrad", "maximize")

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        self._rates: dict[int, tuple[float, Tensor]] = {}
        """The learning rates on the device, by the ids of their groups: only once `rates_on_device` was called."""
        super().__init__(parameters, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    def rates_on_device(self) -> None:
        """From now on read the learning rates from tensors, so that a recorded step sees their changes."""
        for group, (parameters, _) in zip(self.param_groups, self.lists, strict=True):
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
        return [leaf for _, state in self.lists for name in _WHOLE for leaf in state.get(name, [])]

    def _listed(self) -> list[Lists]:
        lists = super()._listed()
        for members, state in lists:
            if members:
                self._keep_together(members, state)
        return lists

    def _keep_together(self, parameters: list[Tensor], state: dict[str, list[Tensor]]) -> None:
        """Keep the state of a group in few tensors, of which that of a parameter is a view.

        Adding to each number of steps takes as long as the kernel, and a compiler joins one loop better than many.
        """
        for name, whole in _WHOLE.items():
            if name == "step" or all(map(_is_plain, parameters)):
                flat = torch.cat([leaf.reshape(-1) for leaf in state[name]])
                state[whole], state[name] = [flat], list(parts_of(flat, state[name]))
                for parameter, part in zip(parameters, state[name], strict=True):
                    self._state[parameter][name] = part

    def _new_state(self, parameter: Tensor) -> dict[str, Tensor]:
        return {
            "step": torch.zeros((), device=parameter.device),
            "exp_avg": torch.zeros_like(parameter, requires_grad=False),
            "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
        }

    def _update(
        self, group: dict[str, Any], parameters: list[Tensor], gradients: list[Tensor], state: dict[str, list[Tensor]]
    ) -> None:
        for count in state.get(_WHOLE["step"], state["step"]):  # without a gradient for each, one by one
            count += 1
        rate = self._rates.get(id(group))
        # p -= lr m' / (√v' + eps), with running means m of g and v of g² that are corrected for their start at 0.
        kernel = torch._fused_adamw_ if group.get(_DECOUPLED) else torch._fused_adam_
        kernel(
            parameters,
            gradients,
            state["exp_avg"],
            state["exp_avg_sq"],
            [],
            state["step"],
            lr=group["lr"] if rate is None else rate[1],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )


def parts_of(flat: Tensor, like: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield consecutive parts of a vector, as views with the shapes of these tensors."""
    parts = torch.split(flat, [each.numel() for each in like])
    return (part.view(each.shape) for part, each in zip(parts, like, strict=True))


def _is_plain(parameter: Tensor) -> bool:
    return parameter.device.type == "cpu" and parameter.dtype == torch.float32 and parameter.is_contiguous()
