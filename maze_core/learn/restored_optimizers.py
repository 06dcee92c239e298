"""Optimizers of saved runs: the form of their state, and which of their settings stay."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from maze_core.base.saved_state import Array, Bool, Exactly, Number, OrLeftOut, OrNone, StateError
from maze_core.learn.optimizers import Optimizer, Settings, plain_setting


def restore(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Restore the result of `saved_optimizer`.

    Raises:
        StateError: it has other switches than the optimizer, such as `amsgrad`, with which no step can be taken.
    """
    before, saved = _switches(optimizer.param_groups), _switches(state.get("param_groups", ()))
    steps = before != saved and _stepped(optimizer) is not None
    optimizer.load_state_dict(state)
    if steps and _stepped(optimizer) is None:
        changed = sorted({name for name, _ in saved - before})
        raise StateError(f"with {', '.join(changed)} as saved, the optimizer cannot take a step")


def _switches(groups: Iterable[dict[str, Any]]) -> set[tuple[str, bool | None]]:
    return {(key, value) for group in groups for key, value in group.items() if isinstance(value, bool | None)}


def load_settings(optimizer: Optimizer, saved: Sequence[dict[str, Any]], configured: Settings) -> None:
    """Give an optimizer whose state has been restored the settings that are configured otherwise than before.

    All others stay as they were when the state was saved: a callback may have changed them since.

    Args:
        optimizer: with the settings of the saved state.
        saved: what was configured in the run that saved it.
        configured: what is configured now.
    """
    for group, before, now in zip(optimizer.param_groups, saved, configured, strict=True):
        group.update(
            {key: value for key, value in now.items() if key in before and plain_setting(before[key]) != value}
        )


def form_of_state(optimizer: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """Return the form of the state of an optimizer, or of one like it."""
    groups = [
        {key: [Exactly(each) for each in value] if key == "params" else _setting(value) for key, value in group.items()}
        for group in state["param_groups"]
    ]
    kept = (state["state"] or _after_a_step(optimizer)).items()
    leaves = {number: OrLeftOut({name: _leaf(name, leaf) for name, leaf in each.items()}) for number, each in kept}
    return {**state, "state": leaves, "param_groups": groups}


def _setting(value: Any) -> Any:
    """Return the form of a setting of a group: few are negative, and the others never become so."""
    if isinstance(value, bool):
        return Bool()
    if value is None:
        return OrNone(Bool())
    if isinstance(value, list | tuple):
        return [_setting(each) for each in value]
    return Number(0.0) if isinstance(value, int | float) and value >= 0 else value


def _leaf(name: str, leaf: Any) -> Any:
    """Return the form of what an optimizer remembers: squares may be infinite, but they and counts not negative."""
    low = 0.0 if name == "step" or "sq" in name else None
    return Array(leaf.dtype, tuple(leaf.shape), low, finite=low is None) if isinstance(leaf, Tensor) else leaf


def _after_a_step(optimizer: Any) -> dict[int, Any]:
    """Return what an optimizer of torch remembers after a step: before the first it remembers nothing.

    Empty for what cannot be stepped like this.
    """
    stepped = _stepped(optimizer)
    return {} if stepped is None else dict(stepped.state_dict()["state"])


def _stepped(optimizer: Any) -> Any:
    """Return a copy of an optimizer that has taken a step with gradients of 0; None where it cannot."""
    try:
        other = copy.deepcopy(optimizer)
        for group in other.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        other.step()
    except Exception:  # noqa: BLE001 — such as one that needs a closure
        return None
    return other
