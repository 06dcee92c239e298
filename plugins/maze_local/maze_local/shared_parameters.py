"""Versioned parameters in shared memory: written by the driver, read by its workers."""

from __future__ import annotations

import numpy as np

from maze_core import RunError, Shared, map_tree
from maze_core.collect.pools.workers import Arrays
from maze_core.envs.spaces import LeafSpec, Specs
from maze_local.shared_tree import SharedTree, has_room, scalars

_VERSION = "#version"
_BUFFERS = 2


class SharedParameters:
    """The driver's side: two buffers, written in turn, so that only the second write from now disturbs a reader.

    Raises:
        RunError: shared memory has no room for the parameters.
    """

    def __init__(self, arrays: Arrays) -> None:
        self.specs: Specs = map_tree(lambda array: LeafSpec(array.shape, array.dtype), arrays)
        needed = _BUFFERS * sum(array.nbytes for array in arrays.values())
        if not has_room(needed):
            size = f"{needed / 1e6:.0f} MB"
            raise RunError(f"shared memory has no room for the parameters ({size}): enlarge /dev/shm, or --runner dev")
        self._memory = SharedTree(_with_version(self.specs), _BUFFERS)
        self.name = self._memory.name
        self.version = 0

    def publish(self, arrays: Arrays) -> int:
        """Copy a new version into shared memory; return its number, from 1.

        Raises:
            ValueError: the arrays differ in name, shape or type from the first ones.
        """
        specs = self.specs
        same = arrays.keys() == specs.keys() and all(
            array.shape == specs[name].shape and array.dtype == specs[name].dtype for name, array in arrays.items()
        )
        if not same:
            raise ValueError("the parameters differ in name, shape or type from those that were shared first")
        shared, self.version = self._memory.arrays, self.version + 1
        buffer = self.version % _BUFFERS
        shared[_VERSION][buffer] = -1
        for name, array in arrays.items():
            shared[name][buffer] = array
        shared[_VERSION][buffer] = self.version
        return self.version

    def close(self) -> None:
        """Remove the shared memory."""
        self._memory.close()


class ParameterReader:
    """A worker's side. `specs` and `name` are those of the driver's `SharedParameters`."""

    def __init__(self, specs: Specs, name: str) -> None:
        self._names = list(specs)
        self._memory = SharedTree(_with_version(specs), _BUFFERS, name)
        self._newest = Shared(0, {})

    def read(self) -> Shared:
        """Return the newest complete version, as read-only copies; the same object while there is no newer one."""
        shared = self._memory.arrays
        while True:
            version = int(shared[_VERSION].max())
            if version == self._newest.version:
                return self._newest
            buffer = version % _BUFFERS
            arrays = {name: np.array(shared[name][buffer]) for name in self._names}
            if shared[_VERSION][buffer] == version:  # else it was overwritten during the copy
                for array in arrays.values():
                    array.flags.writeable = False
                self._newest = Shared(version, arrays)
                return self._newest

    def close(self) -> None:
        """Detach from the shared memory."""
        self._memory.close()


def _with_version(specs: Specs) -> Specs:
    return {**specs, **scalars(**{_VERSION: np.int64})}
