"""Finds the place in a plugin's own code that an error comes from: its class, its method, its file and line."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from maze_core.base.blame import causes, definition
from maze_core.plugins.discovery import describe

Step = tuple[FrameType, int]
"""A frame and the line that it is at."""


def outermost_first(frame: FrameType | None) -> list[Step]:
    """Return a frame and those that called it, the outermost first."""
    found: list[Step] = []
    while frame is not None:
        found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return found[::-1]


def place(steps: Iterable[Step], module: str) -> str:
    """Return the innermost place in the plugin's package, as `Mine.setup (mine.py, line 7)`; empty if there is none.

    `module`: that of the plugin's entry point.
    """
    top = module.partition(".")[0]
    own = [step for step in steps if _package(step[0]) == top]
    return _shown(*own[-1]) if own else ""


def told(error: BaseException, module: str, plugin: Any = None) -> str:
    """Return an error with its place in the plugin; where Maze raised it, with both places.

    Without code of the plugin in the traceback, it names the plugin's class.
    """
    steps = [step for each in list(causes(error))[::-1] for step in traceback.walk_tb(each.__traceback__)]
    raised = traceback.extract_tb(error.__traceback__)[-1:]
    where = place(steps, module) or definition(plugin)
    there = next((f"{Path(each.filename).name}, line {each.lineno}" for each in raised), "")
    if not where:
        return f"{describe(error)} ({there})" if there else describe(error)
    inside = there and there in where
    return f"{describe(error)} (in {where}{'' if inside or not there else f'; raised in {there}'})"


def _shown(frame: FrameType, line: int) -> str:
    code = frame.f_code
    name = "" if code.co_qualname == "<module>" else code.co_qualname.replace(".<locals>", "")
    where = f"{Path(code.co_filename).name}, line {line}"
    return f"{name} ({where})" if name else where


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
