"""Trees in memory that several processes share."""

from __future__ import annotations

from contextlib import suppress
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np

from maze_core.base.file_systems import free_bytes
from maze_core.base.tree import Tree
from maze_core.envs.spaces import LeafSpec, Specs

_ALIGN = 64
_MOUNT = Path("/dev/shm")  # noqa: S108 — where Linux keeps shared memory; its size is limited, in containers to 64 MB


class SharedTree:
    """One block of shared memory with an array for every leaf, `[N, …]`.

    The creator calls `unlink` as soon as the others have attached: then the block is freed however the processes
    end.
    """

    def __init__(self, specs: Specs, num_envs: int, name: str | None = None) -> None:
        size, places = _layout(specs, num_envs)
        self._memory = SharedMemory(name, create=name is None, size=size)
        self.name = self._memory.name
        self.arrays: Tree = {
            key: np.ndarray((num_envs, *spec.shape), spec.dtype, self._memory.buf, places[key])
            for key, spec in specs.items()
        }

    def unlink(self) -> None:
        """Remove the block's name; attached processes keep the block."""
        self._memory.unlink()

    def close(self) -> None:
        """Detach from the block; where views of `arrays` remain, it is freed with the last of them."""
        self.arrays.clear()
        with suppress(BufferError):
            self._memory.close()


def _layout(specs: Specs, num_envs: int) -> tuple[int, dict[str, int]]:
    """Return the size of the block and the offset of each leaf, in bytes."""
    places, end = {}, 0
    for key, spec in specs.items():
        places[key] = end
        end += -(-spec.nbytes * num_envs // _ALIGN) * _ALIGN
    return max(end, 1), places


def has_room(size: int) -> bool:
    """Return True when shared memory has room for `size` bytes. Writing without room would kill the process."""
    free = free_bytes(_MOUNT)
    return free is None or free > 2 * size


def with_prefix(prefix: str, specs: Specs) -> Specs:
    """Return the same leaves with prefixed keys, so that several trees share one block."""
    return {prefix + key: spec for key, spec in specs.items()}


def scalars(**dtypes: type[np.generic]) -> Specs:
    """Return the specs of leaves with one number for each environment."""
    return {name: LeafSpec((), np.dtype(dtype)) for name, dtype in dtypes.items()}
