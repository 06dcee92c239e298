"""The random numbers of Python and numpy that RLlib draws from the process's own generators."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


class BorrowedRandomness:
    """Lets the global generators of Python and numpy stand where training left them inside, and be as before outside.

    RLlib seeds them where it runs, which would change the program around it.
    """

    def __init__(self, seed: int) -> None:
        self._states: tuple[Any, Any] = (
            random.Random(seed).getstate(),
            np.random.RandomState(seed % 2**32).get_state(),
        )

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside: the trainer's generators."""
        outside = _taken()
        _put(self._states)
        try:
            yield
        finally:
            self._states = _taken()
            _put(outside)


def _taken() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()


def _put(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
