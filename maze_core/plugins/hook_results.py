"""What hooks returned: metrics that plugins add to those of an epoch, losses, and what nobody takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import PluginError
from maze_core.base.metrics import as_number
from maze_core.base.terminal_text import kind_of, shown

if TYPE_CHECKING:
    from maze_core.plugins.members import Member


def add(metrics: dict[str, float], further: Any) -> None:
    """Add what a plugin returned, all of it or nothing; None: nothing.

    Raises:
        PluginError: it is no mapping from new names to numbers.
    """
    if not isinstance(further, Mapping | None):
        raise PluginError(f"on_metrics returned {kind_of(further)} instead of metrics by name")
    found = {}
    for name, value in (further or {}).items():
        if not isinstance(name, str):
            raise PluginError(f"on_metrics has the name {shown(name)}, which is no string")
        if name in metrics:
            raise PluginError(f"on_metrics returned {name!r}, which the epoch has already")
        try:
            found[name] = as_number(value)
        except TypeError:
            raise PluginError(f"on_metrics returned {shown(value)} for {name!r}, not a number") from None
    dict.update(metrics, found)  # for plugins it is closed


def problem_of(loss: Any) -> str:
    """Return what it should be; empty if it is that. Called for every minibatch."""
    try:
        if loss.total.numel() == 1 and all(value.numel() == 1 for value in loss.metrics.values()):
            return ""
    except AttributeError:
        if not hasattr(loss, "total") or not hasattr(loss, "metrics"):
            return "Loss"
    parts = {"total": loss.total} | {f"metric {name!r}": value for name, value in loss.metrics.items()}
    wrong = next(name for name, value in parts.items() if getattr(value, "numel", lambda: 0)() != 1)
    return f"one whose {wrong} is a tensor of one number"


def refuse_copy(each: Member, hook: str, result: object, given: object) -> None:
    """Raise PluginError for a hook that changes data in place and returns others, which nobody takes."""
    if result is not None and result is not given:
        raise PluginError(
            f"{ignored(each, hook, result)}\nNext: change what the hook is given in place, and return nothing."
        )


def ignored(each: Member, hook: str, result: object) -> str:
    """Return a sentence about the result of a hook that has none."""
    more = "; metrics of an epoch are returned from the hook on_metrics" if isinstance(result, Mapping) else ""
    return f"{hook} of {each.title} returned {type(result).__name__}, which nobody takes{more}"


def refuse_misused_wrapper(error: Exception, hook: str) -> None:
    """Raise PluginError if pluggy says with this error that a wrapper of a hook does not yield once."""
    text = str(error)
    if isinstance(error, RuntimeError) and text.startswith("wrap_controller at"):
        raise PluginError(f"a wrapper of {hook} must yield exactly once: {text.partition(f'{hook!r} ')[2]}") from error
