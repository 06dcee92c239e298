"""Trees in memory that several processes share."""

from __future__ import annotations

from contextlib import suppress
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np

from maze_core import Tree
from maze_core.base.file_systems import free_bytes
from maze_core.envs.spaces import LeafSpec, Specs

_ALIGN = 64
_MOUNT = Path("/dev/shm")  # noqa: S108 — where Linux keeps shared memory; its size is limited, in containers to 64 MB


class SharedTree:
    """One block of shared memory with an array for every leaf, `[N, …]`.

    The process that created it removes it with `close`; if that process is killed, multiprocessing's tracker does.

    Args:
        specs: of the leaves.
        count: N.
        name: of the block of another process; None: a new one.
    """

    def __init__(self, specs: Specs, count: int, name: str | None = None) -> None:
        size, places = _layout(specs, count)
        self._memory = SharedMemory(name, create=name is None, size=size)
        self._is_ours = name is None
        self.name = self._memory.name
        self.arrays: Tree = {
            key: np.ndarray((count, *spec.shape), spec.dtype, self._memory.buf, places[key])
            for key, spec in specs.items()
        }

    def close(self) -> None:
        """Detach from the block; where views of `arrays` remain, it is freed with the last of them."""
        self.arrays.clear()
        if self._is_ours:
            self._is_ours = False
            self._memory.unlink()
        with suppress(BufferError):
            self._memory.close()


def _layout(specs: Specs, count: int) -> tuple[int, dict[str, int]]:
    """Return the size of the block and the offset of each leaf, in bytes."""
    places, end = {}, 0
    for key, spec in specs.items():
        places[key] = end
        end += -(-spec.nbytes * count // _ALIGN) * _ALIGN
    return max(end, 1), places


def has_room(size: int) -> bool:
    """Return True when shared memory has room for `size` bytes. Writing without room would kill the process."""
    free = free_bytes(_MOUNT)
    return free is None or free > 2 * size


def scalars(**dtypes: type[np.generic]) -> Specs:
    """Return the specs of leaves with one number for each environment."""
    return {name: LeafSpec((), np.dtype(dtype)) for name, dtype in dtypes.items()}
