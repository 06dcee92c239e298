"""What plugins of a kind may do: which hooks are called for them, and what their classes say by attributes.

A hook that would never be called is refused before the run begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from maze_core.base.terminal_text import shown

_MAKERS = ("env", "wrapper")
"""Kinds that build environments. They are built again in each process that steps environments."""
_ANSWERED_BY = {
    "make_env": ("env",),
    "make_agents_env": ("env",),
    "make_vector_env": ("env",),
    "build_policy": ("model", "algorithm"),
    "compute_loss": ("algorithm",),
}
"""The kinds that may answer a hook; others may only wrap the answer."""
WRAPPABLE = tuple(_ANSWERED_BY)
"""The hooks that may have wrappers."""
_OF_ENVIRONMENTS = ("make_env", "make_agents_env", "make_vector_env")
_OF_MAKERS = (*_OF_ENVIRONMENTS, "build_policy")
WITHOUT_HOOKS = ("distribution", "memory", "runner", "policy", "searcher", "teacher", "command")
"""Kinds whose plugins have methods that the core calls directly, and no hooks."""

NEEDS_HOOKS = ("wrapper", "callback")
"""Kinds whose plugins do nothing but by their hooks, and that nobody would miss without them."""


def misplaced(kind: str, hook: str, wrapper: bool) -> str:
    """Return why a plugin of this kind cannot implement a hook; empty if it can.

    `wrapper` is True for an implementation marked by `@hookimpl(wrapper=True)`.
    """
    if kind == "core":
        return ""
    if kind in WITHOUT_HOOKS:
        return f"its {hook} would never be called: {_article(kind)} {kind} has no hooks"
    if hook in _OF_ENVIRONMENTS and kind not in _MAKERS:
        return f"its {hook} would never be called: only env sources and wrappers make environments"
    if hook not in _OF_MAKERS and kind in _MAKERS:
        return (
            f"its {hook} would be called for another object than the one that makes environments, often in another "
            "process; move it to a callback"
        )
    if hook in _ANSWERED_BY and not wrapper and kind not in _ANSWERED_BY[hook]:
        return f"its {hook} would replace what the {_ANSWERED_BY[hook][0]} answers; use @hookimpl(wrapper=True)"
    return ""


def implemented(plugin: type) -> list[str]:
    """Return the names of the hooks that a plugin class implements."""
    return [name for name in dir(plugin) if hasattr(getattr(plugin, name, None), "maze_impl")]


def _article(kind: str) -> str:
    return "an" if kind[0] in "aeiou" else "a"


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
