"""The settings of a run, as loggers show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maze_core.run.run import Run


def settings(run: Run) -> dict[str, Any]:
    """Return the run's configuration by path, such as `algorithm.lr`; a list is one value."""
    found: dict[str, Any] = {}

    def walk(tree: Mapping[str, Any], prefix: str) -> None:
        for key, value in tree.items():
            if isinstance(value, dict) and value:
                walk(value, f"{prefix}{key}.")
            else:
                found[f"{prefix}{key}"] = value

    walk(run.config.model_dump(mode="json"), "")
    return found
