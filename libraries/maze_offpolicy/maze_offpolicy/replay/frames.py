"""Stacks of frames in replay: a frame that several observations show is stored once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from maze_core.base.free_ram import check_ram
from maze_core.envs.spaces import LeafSpec, Specs
from maze_offpolicy.replay.ring import Ring, Slots

if TYPE_CHECKING:
    from maze_core import Tree

TRIED = 30
"""Successive observations that are enough for `find_stacks`."""
_LEAST_BYTES = 1024
# Smaller leaves are stored whole: the frame numbers would take as much.
_MOST_FRAMES = 32
_FRAME = "frame"
_UNUSED = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class FrameStack:
    """How a leaf is made of its last frames: equal parts along its first axis (0) or its last (-1), the newest last."""

    frames: int
    axis: int

    def frame(self, spec: LeafSpec) -> LeafSpec:
        """Return the storage of one frame of a leaf."""
        shape = list(spec.shape)
        shape[self.axis] //= self.frames
        return LeafSpec(tuple(shape), spec.dtype)

    def split(self, leaf: np.ndarray) -> np.ndarray:
        """Return the frames [n, frames, …] of stacks [n, …], as a view of contiguous ones."""
        shape = leaf.shape
        if self.axis == 0:
            return leaf.reshape(shape[0], self.frames, shape[1] // self.frames, *shape[2:])
        return np.moveaxis(leaf.reshape(*shape[:-1], self.frames, shape[-1] // self.frames), -2, 1)

    def join(self, frames: np.ndarray) -> np.ndarray:
        """Return the stacks [n, …] of frames [n, frames, …]."""
        shape = frames.shape
        if self.axis == 0:
            return frames.reshape(shape[0], shape[1] * shape[2], *shape[3:])
        return np.moveaxis(frames, 1, -2).reshape(shape[0], *shape[2:-1], shape[1] * shape[-1])


def may_be_stacks(specs: Specs) -> list[str]:
    """Return the keys of the leaves that are large enough, and of enough dimensions, to be stacks of frames."""
    return [key for key, spec in specs.items() if len(spec.shape) >= 3 and spec.nbytes >= _LEAST_BYTES]


def find_stacks(specs: Specs, observations: Sequence[Tree]) -> dict[str, FrameStack]:
    """Return the leaves that are stacks of frames, judged by successive observations of one episode.

    Args:
        specs: the storage of each leaf.
        observations: trees of leaves […], in the order of time.
    """
    found = {}
    for key in may_be_stacks(specs):
        leaves = [tree[key] for tree in observations]
        changing = [(one, two) for one, two in pairwise(leaves) if not np.array_equal(one, two)]
        fitting = (stack for stack in _possible(specs[key]) if all(_follows(stack, *pair) for pair in changing))
        stack = next(fitting, None) if changing else None
        if stack is not None:
            found[key] = stack
    return found


def _possible(spec: LeafSpec) -> Iterator[FrameStack]:
    for axis in (0, -1):
        size = spec.shape[axis]
        for width in range(1, size // 2 + 1):
            if size % width == 0 and size // width <= _MOST_FRAMES:
                yield FrameStack(size // width, axis)


def _follows(stack: FrameStack, before: np.ndarray, after: np.ndarray) -> bool:
    """Return True when `after` shows what `before` showed, and one more frame."""
    one, two = stack.split(before[None])[0], stack.split(after[None])[0]
    return np.array_equal(one[1:], two[:-1])


def frames_for(rows: int) -> int:
    """Return how many frames are kept at first for so many rows: one each, and some for the starts of episodes."""
    return rows + rows // 8 + 64


class FrameStore(Ring):
    """The frames of one leaf in a replay buffer. All are final.

    A row stores the numbers of its frames. An observation that shows the last frames of the one before adds only its
    newest frame; any other adds all that differ from their neighbour. Nothing depends on how the stacks are made: a
    leaf whose frames repeat less than expected takes more memory, up to that of whole stacks.

    Args:
        stack: how the leaf is made of frames.
        spec: the storage of the leaf.
        shown: [rows, frames] int64: the column of frame numbers, which this class reads to know the frames in use.
        where: the setting that an error about the memory names.
    """

    def __init__(self, stack: FrameStack, spec: LeafSpec, shown: np.ndarray, where: str = "") -> None:
        self.stack, self._shown, self._where = stack, shown, where
        shown[...] = _UNUSED
        self.frame = stack.frame(spec)
        super().__init__({_FRAME: self.frame}, frames_for(len(shown)))
        self._first = 0
        """A frame number below which none is in use."""
        self._expected: np.ndarray | None = None
        """What the open rows of a checkpoint show, [n, frames], until they are appended again."""

    @property
    def nbytes(self) -> int:
        """Bytes of all frames."""
        return self.capacity * self.frame.nbytes

    @property
    def _frames(self) -> np.ndarray:
        return self.columns[_FRAME]

    def append(self, first: int, stacks: np.ndarray, before: np.ndarray | None) -> None:
        """Store the observations of the rows from number `first` on, and which frames they show.

        `before`: the numbers of the rows before them, [n], which may be new too; None: there are none.
        """
        column, rows = self._shown, len(self._shown)
        if (shown := self._expected) is not None:
            self._expected = None
            column[(first + np.arange(len(stacks))) % rows] = self.again(stacks, shown)
            return
        # Rows that follow each other, as those of an episode, are written one by one.
        each = 1 if before is not None and before[-1] >= first else len(stacks)
        for i in range(0, len(stacks), each):
            earlier = None if before is None or before[i] < 0 else column[before[i : i + each] % rows]
            column[(first + np.arange(i, i + each)) % rows] = self.add(stacks[i : i + each], earlier)

    def shown(self, rows: Slots) -> np.ndarray:
        """Return the numbers of the frames that rows of the buffer show, [n, frames]."""
        return self._shown[rows]

    def expect_open(self, shown: list[list[int]]) -> None:
        """Let the next `append` find the open rows of a checkpoint among its frames; `shown`: theirs."""
        self._expected = np.array(shown, np.int64)

    def add(self, stacks: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        """Store observations; return their frame numbers, [n, frames].

        Args:
            stacks: [n, …]
            before: [n, frames], the frame numbers of the observations before them; None: there are none.
        """
        frames = self.stack.split(stacks)
        numbers = np.empty(frames.shape[:2], np.int64)
        kept = np.zeros(len(stacks), np.bool_) if before is None else self._continues(frames, before)
        new = np.ones(numbers.shape, np.bool_)
        new[kept, :-1] = False
        whole = np.flatnonzero(~kept)
        if len(whole):
            new[whole, 1:] = ~_equal(frames[whole, 1:], frames[whole, :-1])
        count = int(new.sum())
        self._make_room(count)
        numbers[new] = self.rows + np.arange(count)
        if before is not None:
            numbers[kept, :-1] = before[kept, 1:]
        for j in range(1, self.stack.frames):
            same = whole[~new[whole, j]]
            numbers[same, j] = numbers[same, j - 1]
        self._frames[numbers[new] % self.capacity] = frames[new]
        self.rows += count
        return numbers

    def again(self, stacks: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """Return the frame numbers of observations that were stored before as `shown`; as `add` where they differ.

        Arguments and result as for `add`.
        """
        if shown.shape != (len(stacks), self.stack.frames):
            return self.add(stacks, None)
        numbers = shown.copy()
        frames = self.stack.split(stacks)
        same = np.logical_and.reduce(_equal(frames, self._frames.take(shown % self.capacity, 0)), axis=1)
        others = np.flatnonzero(~same)
        if len(others):
            numbers[others] = self.add(stacks[others], None)
        return numbers

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """Return the stacks [n, …] of these frame numbers [n, frames]; contiguous, as whole ones would be."""
        return np.ascontiguousarray(self.stack.join(self._frames.take(numbers % self.capacity, 0)))

    def _continues(self, frames: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Return for each observation whether it shows the last frames of the one before it, [n]."""
        held = self._frames.take(before[:, 1:] % self.capacity, 0)
        continues: np.ndarray = np.logical_and.reduce(_equal(frames[:, :-1], held), axis=1)
        return continues

    def _make_room(self, count: int) -> None:
        """Make sure that `count` more frames overwrite none that is in use."""
        if self.rows + count - self._first > self.capacity:
            self._first = min(int(self._shown.min()), self.rows)
            # With some room to spare, since looking through all rows takes time.
            self.reserve(self.rows + count - self._first + self.capacity // 16)

    def reserve(self, frames: int) -> None:
        """Have room for the newest `frames` frames; grow by more than that where it is missing.

        Raises:
            ConfigError: it does not fit into memory.
        """
        if frames <= self.capacity:
            return
        self._grow(frames + frames // 4)

    def _grow(self, larger: int) -> None:
        check_ram(larger * self.frame.nbytes, len(self._shown), self._where)
        numbers = np.arange(self.oldest, self.rows)
        grown = np.zeros((larger, *self.frame.shape), self.frame.dtype)
        grown[numbers % larger] = self._frames[numbers % self.capacity]
        self.columns, self.capacity = {_FRAME: grown}, larger

    # Saving

    def ring(self) -> dict[str, int]:
        """Return how the ring is used, for `expect`."""
        return {"shown": len(self._shown), "capacity": self.capacity, "first": self._first}

    def expect(self, rows: int, ring: Mapping[str, int]) -> None:
        """Prepare for the frames of rows that were restored, of `rows` written so far.

        `ring`: the result of `ring()` when they were saved, which is followed for as many rows.
        """
        if ring["shown"] == len(self._shown):
            self._first = ring["first"]
            if ring["capacity"] > self.capacity:
                self._grow(ring["capacity"])
        else:
            self._first = min(int(self._shown.min()), rows)
            self.reserve(rows - self._first)


def _equal(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Return which frames [n, k, …] are equal, [n, k]."""
    same = np.equal(one, two)
    equal: np.ndarray = np.logical_and.reduce(same, axis=tuple(range(2, same.ndim)))
    return equal
