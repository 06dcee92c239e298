"""The settings of an optimizer's groups, such as learning rates and decays: what is configured, and what was saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from maze_core.base.plain_json import is_number
from maze_core.base.terminal_text import shown

if TYPE_CHECKING:
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

    Raises:
        ValueError: a setting of the saved state is not of the kind that is configured.
    """
    for restored, now in zip(settings_of(optimizer), configured, strict=True):
        for key, value in now.items():
            if not _is_of_kind(restored.get(key), value):
                raise ValueError(f"its optimizer has {shown(restored.get(key))} as {key}")
    for group, before, now in zip(optimizer.param_groups, saved, configured, strict=False):
        group.update({key: value for key, value in now.items() if key in before and _plain(before[key]) != value})


def _is_of_kind(value: Any, configured: Any) -> bool:
    """Return True for a setting that may stand where another one is configured."""
    if isinstance(configured, tuple):
        same = isinstance(value, tuple) and len(value) == len(configured)
        return same and all(map(_is_of_kind, value, configured))
    if isinstance(configured, int | float) and not isinstance(configured, bool):
        return is_number(value)
    return isinstance(value, bool | None) if isinstance(configured, bool | None) else type(value) is type(configured)


def _plain(value: Any) -> Any:
    """Return a setting as it comes back from a file, but for lists, which are tuples here."""
    if isinstance(value, Tensor):
        return value.tolist()
    return tuple(value) if isinstance(value, list) else value
