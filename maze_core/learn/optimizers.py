"""Optimizers: Adam, what they share, and the settings of their groups.

Adam is one fused kernel, without the overhead of `torch.optim`. Optimizers share groups of parameters and a state for
each parameter. Settings, such as learning rates and decays, are configured, and those of a saved run are kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from maze_core.base.errors import ConfigError
from maze_core.base.saved_state import check_state, varies

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


Lists = tuple[list[Tensor], dict[str, list[Tensor]]]


class GroupedOptimizer(ABC):
    """Steps groups of parameters; without the overhead of `torch.optim`, but with its form of the state dict.

    The first optimizer of `torch.optim` in a process loads torch's compiler, which costs 75 MB of memory and a second,
    and each of its steps costs three times the arithmetic for a small network.

    Args:
        parameters: tensors, or groups as mappings with `params` and optionally settings of their own.
        settings: of groups that set none, such as `lr`.
    """

    missing: ClassVar[tuple[str, ...]]
    """Settings of a group that torch's optimizer of this name reads, and this one does not."""

    def __init__(self, parameters: Iterable[Tensor] | Iterable[dict[str, Any]], **settings: Any) -> None:
        items: list[Any] = list(parameters)
        groups: list[dict[str, Any]] = items if items and isinstance(items[0], dict) else [{"params": items}]
        self.param_groups: list[dict[str, Any]] = [
            {**settings, **group, "params": list(group["params"])} for group in groups
        ]
        self.check_settings()
        self._state = {p: self._new_state(p) for group in self.param_groups for p in group["params"]}
        self.lists = self._listed()
        """The parameters of each group, and their state."""

    def check_settings(self) -> None:
        """Raise ConfigError where a group has a setting that would have no effect."""
        kind = type(self).__name__
        for name, value in ((name, group.get(name)) for group in self.param_groups for name in self.missing):
            if value:
                raise ConfigError(
                    f"{name} of a parameter group has no effect: the optimizer is Maze's {kind}, which has no such "
                    "setting",
                    "algorithm",
                    f"Next: in a plugin, run.learner.optimizer = torch.optim.{kind}(…, {name}={value}).",
                )

    @abstractmethod
    def _new_state(self, parameter: Tensor) -> dict[str, Tensor]:
        """Return the tensors that are kept for a parameter, by the names that torch's own optimizer gives them."""

    @abstractmethod
    def _update(
        self, group: dict[str, Any], parameters: list[Tensor], gradients: list[Tensor], state: dict[str, list[Tensor]]
    ) -> None:
        """Update parameters and state of one group in place; each list of the state has one tensor per parameter."""

    def _lists_of(self, parameters: list[Tensor]) -> Lists:
        names = self._state[parameters[0]] if parameters else {}
        return parameters, {name: [self._state[p][name] for p in parameters] for name in names}

    @torch.no_grad()
    def step(self) -> None:
        """Take one step for all parameters that have a gradient."""
        for group, (parameters, state) in zip(self.param_groups, self.lists, strict=True):
            gradients = [p.grad for p in parameters]
            if any(gradient is None for gradient in gradients):
                parameters, state = self._lists_of([p for p in parameters if p.grad is not None])
            if parameters:
                self._update(group, parameters, [gradient for gradient in gradients if gradient is not None], state)

    def follow_parameters(self) -> None:
        """Move the state to the devices on which its parameters are by now: networks may move after they were built."""
        if any(leaf.device != p.device for p, leaves in self._state.items() for leaf in leaves.values()):
            self._rebuild()

    def _rebuild(self) -> None:
        before = self.state_dict()
        self._state = {p: self._new_state(p) for p in self._state}
        self.lists = self._listed()
        self.load_state_dict(before)

    def _listed(self) -> list[Lists]:
        return [self._lists_of(group["params"]) for group in self.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return the state in the form of `torch.optim`: tensors by parameter number, and the groups' settings."""
        numbers = {p: number for number, p in enumerate(self._state)}
        state = {numbers[p]: dict(tensors) for p, tensors in self._state.items()}
        groups = [{**group, "params": [numbers[p] for p in group["params"]]} for group in self.param_groups]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of `state_dict()`.

        Raises:
            ValueError: the state belongs to another number of parameters.
            StateError: it belongs to others, or to another optimizer.
        """
        saved = state_dict["state"]
        if len(saved) != len(self._state) or len(state_dict["param_groups"]) != len(self.param_groups):
            raise ValueError("the optimizer's saved state has another number of parameters")
        check_state(saved, self.state_dict()["state"], "state")
        for number, tensors in enumerate(self._state.values()):
            for name, tensor in tensors.items():
                tensor.copy_(saved[number][name])
        for group, settings in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({key: value for key, value in settings.items() if key != "params"})


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


Settings = list[dict[str, Any]]
"""Those of each group, without its parameters, as plain values."""


def settings_of(optimizer: Optimizer) -> Settings:
    """Return the settings of each group."""
    return [
        {key: plain_setting(value) for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]


def saved_optimizer(optimizer: Optimizer) -> dict[str, Any]:
    """Return the state of an optimizer for a checkpoint, with its form."""
    state = optimizer.state_dict()
    if not {"state", "param_groups"} <= state.keys():
        return state
    return varies(state, lambda: _form(optimizer, state))


def _form(optimizer: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    from maze_core.learn.restored_optimizers import form_of_state  # when a run is resumed

    return form_of_state(optimizer, state)


def plain_setting(value: Any) -> Any:
    """Return a setting as it comes back from a file, but for lists, which are tuples here."""
    if isinstance(value, Tensor):
        return value.tolist()
    return tuple(value) if isinstance(value, list) else value
