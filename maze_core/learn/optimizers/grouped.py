"""What the optimizers share: groups of parameters, a state for each parameter, and both as a state dict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor

from maze_core.base.errors import ConfigError
from maze_core.base.saved_state import check_state

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
