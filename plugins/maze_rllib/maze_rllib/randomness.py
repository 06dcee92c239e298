"""Process-wide state that RLlib changes: random generators of Python and numpy, and torch's determinism."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.backends import cudnn

from maze_core.base.foreign_settings import put_back

_CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


class BorrowedRandomness:
    """Restores training's random state inside a block, and the outer state afterwards.

    RLlib seeds the global generators and makes torch deterministic, which would change the surrounding program.
    """

    def __init__(self, seed: int) -> None:
        self._inside = replace(
            _State.taken(),
            python=random.Random(seed).getstate(),
            numpy=np.random.RandomState(seed % 2**32).get_state(),
        )

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Use the trainer's generators inside the block."""
        outside = _State.taken()
        self._inside.put()
        try:
            yield
        finally:
            self._inside = _State.taken()
            outside.put()


@contextmanager
def kept() -> Iterator[None]:
    """Restore the random state after the block."""
    before = _State.taken()
    try:
        yield
    finally:
        before.put()


@dataclass(frozen=True)
class _State:
    python: Any
    numpy: Any
    deterministic: bool
    cudnn: tuple[bool, bool]
    cublas: str | None

    @classmethod
    def taken(cls) -> _State:
        return cls(
            random.getstate(),
            np.random.get_state(),
            torch.are_deterministic_algorithms_enabled(),
            (cudnn.deterministic, cudnn.benchmark),
            os.environ.get(_CUBLAS),
        )

    def put(self) -> None:
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        if torch.are_deterministic_algorithms_enabled() != self.deterministic:  # setting it imports torch's compiler
            torch.use_deterministic_algorithms(self.deterministic)
        cudnn.deterministic, cudnn.benchmark = self.cudnn
        put_back({_CUBLAS: self.cublas})
