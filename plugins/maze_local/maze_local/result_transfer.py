"""Sends results from a worker process: large arrays through shared memory, the rest through the pipe.

A result of 2.8 MB takes 0.7 ms this way and 12 ms pickled through a pipe; below about 10 kB the pipe is as fast.
"""

from __future__ import annotations

import pickle
from multiprocessing.shared_memory import SharedMemory
from typing import Any, NamedTuple

import numpy as np

from maze_core import RunError
from maze_local.processes import LARGEST_MESSAGE
from maze_local.shared_tree import has_room

LARGE = 32 * 1024
"""Smallest size in bytes of an array that is sent through shared memory."""
_GRAIN = 1 << 20


class Parcel(NamedTuple):
    """A pickled value; its large arrays are stored consecutively in a block of shared memory."""

    content: bytes
    slot: int = -1
    """Index of the packer's block; -1: none, everything is in `content`."""
    block: str = ""
    """Name of the block."""
    sizes: tuple[int, ...] = ()
    """Bytes of each large array."""


class Packer:
    """The worker's side: packs values into blocks, reused once the driver has emptied them."""

    def __init__(self) -> None:
        self._blocks: list[SharedMemory] = []
        self._free: list[int] = []

    def pack(self, value: Any) -> Parcel:
        """Pack a value; large arrays are copied into shared memory, so the caller may overwrite them afterwards.

        Raises:
            RunError: shared memory has no room for them, and a message none either.
        """
        arrays: list[memoryview] = []
        # A buffer stays in the pickle where the callback returns a true value.
        content = pickle.dumps(value, protocol=5, buffer_callback=lambda buffer: _is_small(buffer, arrays))
        if not arrays:
            return Parcel(content)
        sizes = tuple(array.nbytes for array in arrays)
        slot = self._slot(sum(sizes))
        if slot is None and sum(sizes) + len(content) > LARGEST_MESSAGE - _GRAIN:
            size = f"{sum(sizes) / 1e6:.0f} MB"
            raise RunError(
                f"shared memory has no room for what a worker sends ({size}): enlarge /dev/shm, or --runner dev"
            )
        if slot is None:
            return Parcel(pickle.dumps(value, protocol=5))
        target, start = _bytes(self._blocks[slot]), 0
        for array in arrays:
            target[start : start + array.nbytes] = array
            start += array.nbytes
        return Parcel(content, slot, self._blocks[slot].name, sizes)

    def release(self, slots: list[int]) -> None:
        """Allow the reuse of these blocks: the driver has emptied them."""
        self._free += slots

    def close(self) -> None:
        """Detach from all blocks."""
        for block in self._blocks:
            block.close()
        self._blocks, self._free = [], []

    def _slot(self, size: int) -> int | None:
        """Return the index of a free block of at least `size` bytes; None where there is no memory for one."""
        slot = next((slot for slot in self._free if self._blocks[slot].size >= size), None)
        if slot is None and not has_room(size):
            return None
        if slot is None:
            block = SharedMemory(create=True, size=-(-size // _GRAIN) * _GRAIN)
            if not self._free:
                self._blocks.append(block)
                return len(self._blocks) - 1
            slot = self._free[0]
            self._blocks[slot].close()
            self._blocks[slot] = block
        self._free.remove(slot)
        return slot


class Unpacker:
    """The driver's side, one for each worker process: empties blocks and reports those that are free."""

    def __init__(self) -> None:
        self._blocks: dict[int, SharedMemory] = {}
        self._emptied: list[int] = []

    def unpack(self, parcel: Parcel) -> Any:
        """Return the value; its arrays are writable copies."""
        if parcel.slot < 0:
            return pickle.loads(parcel.content)  # noqa: S301 — from our own worker
        source, start, arrays = _bytes(self._block(parcel)), 0, []
        for size in parcel.sizes:
            arrays.append(source[start : start + size].copy())
            start += size
        self._emptied.append(parcel.slot)
        return pickle.loads(parcel.content, buffers=arrays)  # noqa: S301

    def emptied(self) -> list[int]:
        """Return the blocks emptied since the last call, for `Packer.release`."""
        slots, self._emptied = self._emptied, []
        return slots

    def close(self) -> None:
        """Detach from all blocks."""
        for block in self._blocks.values():
            block.close()
        self._blocks = {}

    def _block(self, parcel: Parcel) -> SharedMemory:
        known = self._blocks.get(parcel.slot)
        if known is not None and known.name == parcel.block:
            return known
        if known is not None:
            known.close()
        block = self._blocks[parcel.slot] = SharedMemory(parcel.block)
        block.unlink()  # frees the block however the processes end
        return block


def _bytes(block: SharedMemory) -> np.ndarray:
    """Return a view of a block; delete it before closing the block."""
    return np.ndarray(block.size, np.uint8, block.buf)


def _is_small(buffer: pickle.PickleBuffer, large: list[memoryview]) -> bool:
    view = buffer.raw()
    if view.nbytes < LARGE:
        return True
    large.append(view)
    return False
