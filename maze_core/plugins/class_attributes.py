"""What plugin classes of some kinds say of themselves by attributes, looked at when they are loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from maze_core.base.terminal_text import shown


def _distribution(plugin: Any) -> str:
    from gymnasium import Space

    kinds = plugin.spaces
    if not isinstance(kinds, tuple) or not all(isinstance(kind, type) and issubclass(kind, Space) for kind in kinds):
        return f"its `spaces` is {shown(kinds)}, not a tuple of classes of spaces, such as (gymnasium.spaces.Box,)"
    if not isinstance(plugin.gives, type):
        return f"its `gives` is {shown(plugin.gives)}, not the class of its distributions"
    return ""


def _truth(name: str) -> Callable[[Any], str]:
    def check(plugin: Any) -> str:
        value = getattr(plugin, name, False)
        return "" if isinstance(value, bool) else f"its `{name}` is {shown(value)}, neither True nor False"

    return check


def _calls(plugin: Any) -> str:
    from maze_core.plugins.hookspecs import HookSpecs

    calls = getattr(plugin, "calls", None)
    if not isinstance(calls, tuple | None):
        return f"its `calls` is {shown(calls)}, neither a tuple of hooks nor None"
    wrong = [name for name in calls or () if not callable(vars(HookSpecs).get(str(name)))]
    return f"its `calls` has {shown(wrong[0])}, and there is no such hook" if wrong else ""


_CHECKS: Mapping[str, Callable[[Any], str]] = {
    "algorithm": _calls,
    "distribution": _distribution,
    "runner": _truth("has_collectors"),
    "searcher": _truth("foresees"),
}


def wrong_attribute(kind: str, plugin: type[Any]) -> str:
    """Return which attribute of a plugin class of a kind is of no use; empty if none."""
    check = _CHECKS.get(kind)
    return check(plugin) if check is not None else ""
