"""Maze in notebooks: progress, runs that show themselves, short errors, data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_core.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from maze_notebook.frames import history as history

_HOMES = {"history": "maze_notebook.frames"}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
