"""The state of a run after an update, in memory: what a checkpoint holds if the next update cannot be finished."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from maze_core.run.saved.checkpoint import Checkpoint

_SHARE = 100.0
"""The time between two copies is at least so many times that of taking one: they cost at most 1 %."""
_SLOW = 0.5
"""Seconds of an update after which the next one may be too long to be finished."""
_RARELY = 60.0
"""Seconds between two copies where updates are quick."""


class KeptState:
    """A copy of the newest state that is worth one, if it is newer than the checkpoint on disk.

    Args:
        capture: returns the state; it may refer to what training changes.
    """

    def __init__(self, capture: Callable[[], Checkpoint]) -> None:
        self._capture = capture
        self._cost = 0.0
        self.clear()

    def clear(self) -> None:
        """Forget the copy: the checkpoint on disk is as new, or is what should stand."""
        self.checkpoint: Checkpoint | None = None
        self._taken = self._last = time.perf_counter()

    @property
    def is_due(self) -> bool:
        """True after a slow update, or when there has been no copy for long, unless copies would cost too much."""
        now = time.perf_counter()
        since, update = now - self._taken, now - self._last
        self._last = now
        return since >= _SHARE * self._cost and (update >= _SLOW or since >= _RARELY)

    def take(self) -> None:
        """Copy the state."""
        began = time.perf_counter()
        found = self._capture()
        self.checkpoint = Checkpoint(_copied(found.model), _copied(found.state), found.extents)
        self._taken = self._last = time.perf_counter()
        self._cost = self._taken - began


def _copied(value: Any) -> Any:
    """Return nested dicts and lists with copies of their arrays and, on the CPU, of their tensors."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list | tuple) else value
