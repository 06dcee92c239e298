"""Trees in memory that several processes share."""

from __future__ import annotations

from contextlib import suppress
from multiprocessing.shared_memory import SharedMemory

import numpy as np

from maze_core.envs.spaces import LeafSpec, Specs
from maze_core.envs.vector import Tree

_ALIGN = 64


class SharedTree:
    """One block of shared memory with an array for every leaf, `[N, …]`.

    The creator calls `unlink` as soon as the others have attached: from then on nothing is left behind, however
    the processes end.
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
        """Take the block's name away; those who are attached keep it."""
        self._memory.unlink()

    def close(self) -> None:
        """Let go of the block; where views of `arrays` are still about, it goes with the last of them."""
        self.arrays.clear()
        with suppress(BufferError):
            self._memory.close()


def _layout(specs: Specs, num_envs: int) -> tuple[int, dict[str, int]]:
    """The size of the block, and where each leaf begins in it."""
    places, end = {}, 0
    for key, spec in specs.items():
        places[key] = end
        end += -(-spec.nbytes * num_envs // _ALIGN) * _ALIGN
    return max(end, 1), places


def with_prefix(prefix: str, specs: Specs) -> Specs:
    """The same leaves under other keys, so that several trees share one block."""
    return {prefix + key: spec for key, spec in specs.items()}


def scalars(**dtypes: type[np.generic]) -> Specs:
    """Leaves with one number for each environment."""
    return {name: LeafSpec((), np.dtype(dtype)) for name, dtype in dtypes.items()}
