"""What an algorithm keeps beside its networks: the parts that a checkpoint saves, and those that collect its data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import numpy as np
import torch

from maze_core.base.errors import PluginError
from maze_core.base.seeding import load_random_state, random_state
from maze_core.base.terminal_text import shown


class Stateful(Protocol):
    """A part with a state that a checkpoint can store."""

    def state(self) -> dict[str, Any]:
        """Return nested dicts of plain values, arrays and tensors."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""


Kept = Stateful | np.random.Generator | torch.Generator


class Collector(ABC):
    """Collects the data that an algorithm learns from. `Algorithm.keep` connects it with the run."""

    calls: ClassVar[tuple[str, ...]] = ()
    """The hooks of plugins that the data pass. The constructor of a collector announces them: `run.hooks.announce`."""

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


def put(kept: dict[str, Kept], name: str, part: Kept) -> None:
    """Add a part to those that a checkpoint saves.

    Raises:
        PluginError: it has no state, or another part has the name.
    """
    has_state = callable(getattr(part, "state", None)) and callable(getattr(part, "load_state", None))
    if not has_state and not isinstance(part, np.random.Generator | torch.Generator):
        raise PluginError(
            f"keep({name!r}) takes what has state() and load_state(state), or a generator, not {shown(part)}"
        )
    if kept.get(name, part) is not part:
        raise PluginError(f"keep({name!r}) is called twice: the state of the first part would not be saved")
    kept[name] = part


def state_of(part: Kept) -> Any:
    """Return the state of a part."""
    return random_state(part) if isinstance(part, np.random.Generator | torch.Generator) else part.state()


def load_state_of(part: Kept, state: Any) -> None:
    """Restore the result of `state_of()`."""
    if isinstance(part, np.random.Generator | torch.Generator):
        load_random_state(part, state)
    else:
        part.load_state(state)
