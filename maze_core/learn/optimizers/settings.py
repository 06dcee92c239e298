"""The settings of an optimizer's groups, such as learning rates and decays: what is configured, and what was saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from maze_core.base.saved_state import Entries, Exactly, Flag, Leaf, Number, OrLeftOut, OrNone, varies

if TYPE_CHECKING:
    from maze_core.base.saved_state import Form
    from maze_core.learn.optimizers.adam import Optimizer

Settings = list[dict[str, Any]]
"""Those of each group, without its parameters, as plain values."""


def settings_of(optimizer: Optimizer) -> Settings:
    """Return the settings of each group."""
    return [{key: _plain(value) for key, value in group.items() if key != "params"} for group in optimizer.param_groups]


def load_settings(optimizer: Optimizer, saved: Sequence[dict[str, Any]], configured: Settings) -> None:
    """Give an optimizer whose state has been restored the settings that are configured otherwise than before.

    All others stay as they were when the state was saved: a callback may have changed them since.

    Args:
        optimizer: with the settings of the saved state.
        saved: what was configured in the run that saved it.
        configured: what is configured now.
    """
    for group, before, now in zip(optimizer.param_groups, saved, configured, strict=False):
        group.update({key: value for key, value in now.items() if key in before and _plain(before[key]) != value})


def saved_optimizer(optimizer: Optimizer) -> dict[str, Any]:
    """Return the state of an optimizer for a checkpoint, with its form."""
    state = optimizer.state_dict()
    if not {"state", "param_groups"} <= state.keys():
        return state
    groups = [{key: _form(key, value) for key, value in group.items()} for group in state["param_groups"]]
    parameters = enumerate(parameter for group in optimizer.param_groups for parameter in group["params"])
    kept: dict[int, Any] = {number: OrLeftOut(Entries(_Moment(parameter))) for number, parameter in parameters}
    if state["state"]:  # those of torch have nothing there before the first step
        kept = {number: dict(starmap(_leaf, each.items())) for number, each in state["state"].items()}
    return varies(state, cast("Form", {**state, "state": kept, "param_groups": groups}))


def _form(name: str, setting: Any) -> Any:
    """Return the form of a setting of a group: no number may be negative, and of several, such as decays, above 1."""
    if name == "params":
        return [Exactly(number) for number in setting]
    if isinstance(setting, bool | None):
        return OrNone(Flag())
    if isinstance(setting, list | tuple):
        return [Number(0.0, 1.0) for _ in setting]
    return Number(0.0) if isinstance(setting, int | float) else setting


def _leaf(name: str, leaf: Tensor) -> tuple[str, Leaf]:
    """Return the form of what an optimizer remembers: counts and squares are not negative; squares may be infinite."""
    low = None if name == "exp_avg" else 0.0
    return name, Leaf(leaf.dtype, tuple(leaf.shape), low, finite=low is None)


@dataclass(frozen=True)
class _Moment:
    """The form of what optimizers of torch remember of a parameter: leaves of its shape, numbers, or None."""

    parameter: Tensor

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if it is something else."""
        if isinstance(saved, Tensor):
            shape = tuple(self.parameter.shape) if saved.ndim else ()
            Leaf(saved.dtype if saved.is_floating_point() else self.parameter.dtype, shape).check(saved, place)
        else:
            OrNone(Number()).check(saved, place)


def _plain(value: Any) -> Any:
    """Return a setting as it comes back from a file, but for lists, which are tuples here."""
    if isinstance(value, Tensor):
        return value.tolist()
    return tuple(value) if isinstance(value, list) else value
