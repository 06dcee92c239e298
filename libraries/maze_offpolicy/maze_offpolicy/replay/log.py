"""Replay data on disk: appended, never rewritten, and exact for every checkpoint that refers to it.

The rows of a buffer go to files of records, each row once: a checkpoint appends the rows added since the previous one
and stores in its state how many records of which files it uses. Further records in a file belong to later or
incomplete checkpoints and are not read. A resumed run begins a new file, so the files of other checkpoints do not
change. A file is deleted when no checkpoint refers to it any more.

    run/replay/000001.rows      records as `numpy.fromfile(path, dtype)` reads them
    run/replay/0-000001.rows    frames of the first leaf that is a stack of frames
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import Count, RunError, varies
from maze_core.base import files
from maze_core.base.errors import CheckpointError
from maze_core.base.file_systems import flush
from maze_core.base.saved_state import Each, Entries, Text
from maze_core.base.terminal_text import argument
from maze_offpolicy.replay.frames import FrameStack, FrameStore

if TYPE_CHECKING:
    from maze_core import Tree
    from maze_core.envs.spaces import Specs
    from maze_offpolicy.replay.buffer import ReplayBuffer
    from maze_offpolicy.replay.ring import Ring

_CHUNK_BYTES = 32_000_000
_SEGMENTS_PER_BUFFER = 8
_SUFFIX = ".rows"
_SEGMENT = {"file": Text(), "first": Count(), "count": Count(1), "crc": Count(below=2**32)}
_FRAMES = {
    "rows": Count(),
    "segments": Each(_SEGMENT),
    "stack": {"frames": Count(2, 33), "axis": Count(-1, 1)},
    "ring": {"shown": Count(), "capacity": Count(), "first": Count()},
}
"""The forms of a segment in a saved state, and of a leaf that is a stack of frames."""


@dataclass(slots=True)
class Segment:
    """A sequence of consecutive rows in one file."""

    file: str
    first: int
    """Number of the first row."""
    count: int
    crc: int
    """CRC-32 of the records."""

    @property
    def end(self) -> int:
        """Number of the row after the last."""
        return self.first + self.count


class ReplayLog:
    """Stores a replay buffer, with the frames of its stacks, in the files of one folder.

    Raises:
        RunError: a row cannot be written; earlier checkpoints stay complete.
        CheckpointError: rows that a checkpoint refers to are missing or damaged.
    """

    def __init__(self, folder: Path, buffer: ReplayBuffer) -> None:
        self._folder, self._buffer = folder, buffer
        self._open()

    def _open(self) -> None:
        buffer = self._buffer
        self._rows = RowLog(self._folder, buffer)
        self._frames = {
            key: RowLog(self._folder, store, f"{i}-") for i, (key, store) in enumerate(buffer.frames.items())
        }
        self._rings = {prefix: RowLog(self._folder, ring, prefix) for prefix, ring in buffer.selector.rings().items()}

    @property
    def _logs(self) -> list[RowLog]:
        return [self._rows, *self._frames.values(), *self._rings.values()]

    def commit(self) -> dict[str, Any]:
        """Write the settled rows that are not on disk yet; return the state with which `load` finds all of them."""
        buffer = self._buffer
        frames = {key: log.commit() | _layout(buffer.frames[key]) for key, log in self._frames.items()}
        rings = {prefix: log.commit() for prefix, log in self._rings.items()}
        return {
            **self._rows.commit(),
            "steps": varies(buffer.steps, Count()),
            "frames": varies(frames, Entries(_FRAMES)),
            "open_frames": varies(buffer.open_frames(), Entries(Each(Each(Count())))),
            "selector": rings,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Fill the buffer with the rows in the result of `commit()`, as far back as its capacity allows."""
        buffer, saved = self._buffer, state["frames"]
        if saved.keys() != state["open_frames"].keys():
            raise ValueError("its open rows have other stacks of frames than the rest")
        stacks = {key: FrameStack(**each["stack"]) for key, each in saved.items()}
        if stacks != {key: store.stack for key, store in buffer.frames.items()}:
            buffer.lay_out(stacks, buffer.capacity)
            self._open()
        self._rows.load(state)
        buffer.steps = state["steps"]
        for key, store in buffer.frames.items():
            store.expect(saved[key]["rows"], saved[key]["ring"])
            self._frames[key].load(saved[key])
        buffer.expect_open(state["open_frames"])
        for prefix, log in self._rings.items():
            log.load(state["selector"][prefix])

    def prune(self, documents: Iterable[str]) -> None:
        """Delete the files that neither a document nor the newest `commit()` refers to.

        `documents`: the `state.json` of every kept checkpoint.
        """
        newest = [log.files() for log in self._logs]
        self._rows.prune([*documents, *newest])


class RowLog:
    """Stores rows in files of one folder whose names begin with `prefix`."""

    def __init__(self, folder: Path, buffer: Ring, prefix: str = "") -> None:
        self._folder, self._run_dir, self._buffer, self._prefix = folder, folder.parent, buffer, prefix
        self._dtype = _record(buffer.specs)
        self._chunk = max(1, _CHUNK_BYTES // self._dtype.itemsize)
        self._segment_rows = max(1, buffer.capacity // _SEGMENTS_PER_BUFFER)
        self._segments: list[Segment] = []
        self._growing = False
        """True when this process may append: it wrote the last segment's file, which ends with the segment."""

    def commit(self) -> dict[str, Any]:
        """Write the settled rows that are not on disk yet; return the state with which `load` finds all of them."""
        buffer = self._buffer
        oldest = max(0, buffer.rows - buffer.capacity)
        written = self._segments[-1].end if self._segments else 0
        first = max(written, oldest)
        if first > written:
            self._growing = False
        while first < buffer.settled:
            count = min(self._chunk, buffer.settled - first)
            self._append(first, buffer.read(first, count))
            first += count
        # However often this is called, the same rows are kept: as many as fit before the open ones are added again.
        self._segments = [each for each in self._segments if each.end > buffer.settled - buffer.capacity]
        segments = [asdict(segment) for segment in self._segments]
        return {"rows": varies(buffer.settled, Count()), "segments": varies(segments, Each(_SEGMENT))}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the rows in the result of `commit()`, as far back as the capacity allows.

        Raises:
            ValueError: the files have other rows than the state says.
        """
        self._segments = [Segment(**segment) for segment in state["segments"]]
        self._growing = False
        rows, ends = state["rows"], [0, *(segment.end for segment in self._segments)]
        if rows != ends[-1] or any(segment.first < end for segment, end in zip(self._segments, ends, strict=False)):
            raise ValueError("its replay data are not as many rows as it says")
        oldest = rows - self._buffer.capacity
        for segment in self._segments:
            if segment.end > oldest:
                for first, columns in self._read(segment):
                    self._buffer.restore(first, columns)

    def files(self) -> str:
        """Return the names of the files with the rows of the newest `commit()`, as a document refers to them."""
        return json.dumps([segment.file for segment in self._segments])

    def prune(self, documents: Sequence[str]) -> None:
        """Delete the files of the folder that no document refers to."""
        for name in self._names():
            if not any(f'"{name}"' in text for text in documents):
                files.discard(self._folder / name, self._run_dir)

    def _append(self, first: int, columns: Tree) -> None:
        records = np.empty(len(next(iter(columns.values()))), self._dtype)
        for name, column in columns.items():
            records[name] = column
        data = records.tobytes()
        try:
            if not self._growing or self._segments[-1].count >= self._segment_rows:
                self._segments.append(Segment(self._new_file(), first, 0, 0))
            # Do not append to it before it is known to be complete.
            self._growing = False
            with files.open_file(self._folder / self._segments[-1].file, "ab", self._run_dir) as file:
                file.write(data)
                file.flush()
                flush(file.fileno(), self._run_dir)
        except OSError as error:
            raise RunError(f"could not write the replay data in {self._folder}: {error.strerror or error}") from None
        segment = self._segments[-1]
        segment.count += len(records)
        segment.crc = zlib.crc32(data, segment.crc)
        self._growing = True

    def _new_file(self) -> str:
        files.make_folder(self._folder, self._run_dir)
        mine = [name for name in self._names() if name.startswith(self._prefix)]
        stems = (name.removeprefix(self._prefix).removesuffix(_SUFFIX) for name in mine)
        number = max((int(stem) for stem in stems if stem.isdecimal()), default=0) + 1
        name = f"{self._prefix}{number:06d}{_SUFFIX}"
        files.open_file(self._folder / name, "xb", self._run_dir).close()
        files.sync(self._folder, self._run_dir)
        files.sync(self._run_dir, self._run_dir)
        return name

    def _names(self) -> list[str]:
        return [name for name in files.names(self._folder, self._run_dir) if name.endswith(_SUFFIX)]

    def _read(self, segment: Segment) -> Iterator[tuple[int, Tree]]:
        path, crc, done = self._folder / segment.file, 0, 0
        try:
            with files.open_file(path, "rb", self._run_dir) as file:
                while done < segment.count:
                    count = min(self._chunk, segment.count - done)
                    data = file.read(count * self._dtype.itemsize)
                    if len(data) < count * self._dtype.itemsize:
                        raise CheckpointError(f"the replay data {path} is cut short; {_way_out(path)}")
                    records = np.frombuffer(data, self._dtype)
                    yield segment.first + done, {name: records[name] for name in self._dtype.names or ()}
                    crc, done = zlib.crc32(data, crc), done + count
        except OSError as error:
            raise CheckpointError(
                f"the replay data {path} cannot be read ({error.strerror}); {_way_out(path)}"
            ) from error
        if crc != segment.crc:
            raise CheckpointError(f"the replay data {path} is damaged (its checksum does not match); {_way_out(path)}")


def _layout(store: FrameStore) -> dict[str, Any]:
    return {"stack": asdict(store.stack), "ring": store.ring()}


def _record(specs: Specs) -> np.dtype[Any]:
    return np.dtype([(name, spec.dtype, spec.shape) for name, spec in specs.items()])


def _way_out(path: Path) -> str:
    run_dir = argument(path.parent.parent)
    return (
        "the parameters are intact.\n"
        f"Next: maze resume {run_dir} --checkpoint previous, or a new run with --init-from {run_dir}"
    )
