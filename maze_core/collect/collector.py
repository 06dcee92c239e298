"""What an algorithm keeps beside its networks: the parts that a checkpoint saves, and those that collect its data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
import torch


class Stateful(Protocol):
    """A part with a state that a checkpoint can store."""

    def state(self) -> dict[str, Any]:
        """Return nested dicts of plain values, arrays and tensors."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""


Kept = Stateful | np.random.Generator | torch.Generator


class Collector(ABC):
    """Collects the data that an algorithm learns from. `Algorithm.keep` connects it with the run."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return everything that decides the next data except the networks."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""

    def warm_up(self) -> bool:
        """Collect the data that learning starts from, if any; return False if the run was interrupted before its end.

        Called before each update: return True at once where nothing is missing.
        """
        return True

    @property
    def disk_bytes(self) -> int:
        """The most bytes that the data takes in the run directory."""
        return 0

    def prune(self) -> None:  # noqa: B027 — most store nothing
        """Delete files that no checkpoint needs any more. Called when a checkpoint is complete."""


def state_of(part: Kept) -> Any:
    """Return the state of a part."""
    if isinstance(part, np.random.Generator):
        return part.bit_generator.state
    return part.get_state() if isinstance(part, torch.Generator) else part.state()


def load_state_of(part: Kept, state: Any) -> None:
    """Restore the result of `state_of()`."""
    if isinstance(part, np.random.Generator):
        part.bit_generator.state = state
    elif isinstance(part, torch.Generator):
        part.set_state(state)
    else:
        part.load_state(state)
