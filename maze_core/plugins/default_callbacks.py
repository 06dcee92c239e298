"""The default callbacks, and runs without those that are not installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError, PluginError
from maze_core.plugins.config.raw import Raw

if TYPE_CHECKING:
    from maze_core.plugins.discovery import Loader

DEFAULT_CALLBACKS = ("console", "tensorboard", "jsonl", "best_checkpoint", "early_stopping")
"""In the order in which they are called. `tensorboard` comes with a distribution of its own."""
OBSERVERS = {"tensorboard": "tensorboard"}
"""Those that have no part in acting and may be missing, as `without_missing` takes them."""


def without_uninstalled(
    raw: Raw, assignments: Sequence[tuple[tuple[str, ...], Any]], load: Loader, tell: Callable[[str], None]
) -> Raw:
    """Return a configuration without the default callbacks that are not installed.

    One that an assignment sets stays: an error says what to install for it. `tell` is called with a sentence for each
    callback that is left out.
    """
    callbacks = raw.get("callbacks")
    if not isinstance(callbacks, dict):
        return raw
    kept = dict(callbacks)
    for name in DEFAULT_CALLBACKS:
        part = callbacks.get(name)
        if not isinstance(part, dict) or part.get("name", name) != name or _is_set(name, assignments):
            continue
        try:
            load("callback", name)
        except ConfigError as error:
            tell(f"this run does without the callback {name}. {error.hint or error.message}")
            del kept[name]
        except PluginError:
            continue  # it is installed: its error is reported with all other problems
    return {**raw, "callbacks": kept}


def _is_set(name: str, assignments: Sequence[tuple[tuple[str, ...], Any]]) -> bool:
    whole = [value for path, value in assignments if path == ("callbacks",)]
    deep = any(path[:2] == ("callbacks", name) for path, _ in assignments)
    return deep or any(isinstance(value, dict) and name in value for value in whole)
