"""Load recordings: every row is mapped from the files and verified, so that no damaged data is learned from."""

from __future__ import annotations

import errno
import math
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from tokenize import TokenError
from typing import BinaryIO

import numpy as np

from maze_core import map_tree
from maze_core.base import files
from maze_core.base.file_systems import say_once
from maze_core.base.terminal_text import argument, printable
from maze_core.envs.spaces import LeafSpec
from maze_recordings.progress import Report
from maze_recordings.recording_files import (
    DESCRIPTION,
    EPISODES,
    FOLDERS,
    PIECE,
    REWARDS,
    WRAPPED,
    Description,
    EpisodeRecord,
    TrajectoryError,
    check_complete,
    checksum,
    column_path,
    column_role,
    read_description,
    read_records,
    return_problem,
    stored,
    wrong_in_column,
)
from maze_recordings.trajectories import Trajectories

_CHUNK = 16_384


def load_trajectories(path: str | os.PathLike[str], workers: int = 1, report: Report | None = None) -> Trajectories:
    """Load a recording, or a folder of recordings with equal spaces, and verify every row.

    Args:
        path: a folder that `TrajectoryWriter` wrote, or one whose sub-folders it wrote.
        workers: number of reading threads.
        report: called with the verified and the total number of bytes.

    Raises:
        TrajectoryError: there is no recording, or one is damaged, empty, of another format or has other spaces than
            the first. The message names the file.
    """
    folders = recordings(Path(path))
    descriptions = [read_description(folder) for folder in folders]
    for folder, other in zip(folders[1:], descriptions[1:], strict=True):
        _check_equal(folders[0], descriptions[0], folder, other)
    # What not all of them hold is left out.
    both = all(each.has_wrapped for each in descriptions)
    description = replace(descriptions[0], has_wrapped=both)
    episodes = [read_records(folder) for folder in folders]
    _check_complete(folders, episodes)
    parts = [(folder, records) for folder, records in zip(folders, episodes, strict=True) if records]
    if not parts:
        raise TrajectoryError(f"{folders[0] / EPISODES} is empty: no episode was recorded")
    columns = {
        name: [_Column(name, folder, records, spec) for folder, records in parts]
        for name, spec in description.columns().items()
    }
    _verify([each for column in columns.values() for each in column], description, workers, report)
    arrays = map_tree(lambda column: _joined([part.rows for part in column]), columns)
    trees = {role: {n.partition("/")[2]: a for n, a in arrays.items() if column_role(n) == role} for role in FOLDERS}
    found = tuple(record for _, records in parts for record in records)
    return Trajectories(
        description,
        found,
        trees["observation"],
        trees["action"],
        arrays[REWARDS],
        arrays.get(WRAPPED),
    )


def recordings(path: Path) -> list[Path]:
    """Return the recordings at a path: itself, or its sub-folders, sorted by name.

    Raises:
        TrajectoryError: there is none.
    """
    if os.path.lexists(path / DESCRIPTION):
        return [path]
    try:
        here = path.is_dir()
    except OSError as error:
        raise TrajectoryError(f"{printable(path, 200)} cannot be read: {error.strerror}") from error
    # Hidden is what another process is just writing.
    found = sorted(file.parent for file in path.glob(f"[!.]*/{DESCRIPTION}")) if here else []
    if not found:
        problem = f"there is no {DESCRIPTION} in it" if here else "there is no such folder"
        hint = f"Next: record some, maze rollout RUN --record {argument(path)}"
        raise TrajectoryError(f"{path} contains no recorded trajectories: {problem}\n{hint}")
    return found


def _check_equal(first: Path, ours: Description, folder: Path, theirs: Description) -> None:
    for role in FOLDERS:
        if ours.space(role) != theirs.space(role):
            raise TrajectoryError(
                f"{folder / DESCRIPTION}: the {role} space is {theirs.space(role)}, that of {first} is "
                f"{ours.space(role)}; recordings that are loaded together need equal spaces"
            )


def _check_complete(folders: list[Path], episodes: list[list[EpisodeRecord]]) -> None:
    """Warn once of recordings that were not finished. Raises TrajectoryError for one that has lost episodes."""
    told = [check_complete(folder, records) for folder, records in zip(folders, episodes, strict=True)]
    unfinished = list(filter(None, told))
    if unfinished:
        others = f"; so it is with {len(unfinished) - 1} more of {len(folders)} recordings" if unfinished[1:] else ""
        warnings.warn(unfinished[0] + others, RuntimeWarning, stacklevel=3)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True)
class _Column:
    """One array of one recording."""

    name: str
    folder: Path
    """The folder of the recording."""
    episodes: list[EpisodeRecord]
    spec: LeafSpec

    @property
    def path(self) -> Path:
        """The column's file."""
        return column_path(self.folder, self.name)

    @property
    def rows(self) -> np.ndarray:
        """The rows of the episodes, mapped from the file, copy on write."""
        rows = sum(record.rows(self.name) for record in self.episodes)
        try:
            with files.open_file(self.path, "rb", self.folder) as file:
                if np.lib.format.read_magic(file) != (1, 0):
                    raise ValueError("it is not an array in NumPy's format 1.0")
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
                start = file.tell()
                if (tuple(shape[1:]), dtype, fortran) != (self.spec.shape, stored(self.spec.dtype), False):
                    raise ValueError(f"a row is {dtype} {shape[1:]} instead of {self.spec.dtype} {self.spec.shape}")
                if os.fstat(file.fileno()).st_size < start + rows * self.spec.nbytes:
                    raise ValueError(f"it is shorter than the {rows} rows that {EPISODES} names")
                return self._mapped(file, start, (rows, *self.spec.shape))
        except (OSError, ValueError, TypeError, SyntaxError, RecursionError, TokenError) as error:
            # NumPy parses the header as a Python literal, which can raise any of these.
            reason = printable(getattr(error, "strerror", None) or error, 300)
            raise TrajectoryError(f"{self.path} is damaged: {reason}") from error

    def _mapped(self, file: BinaryIO, start: int, shape: tuple[int, ...]) -> np.ndarray:
        dtype = stored(self.spec.dtype)
        try:
            return np.memmap(file, dtype, "c", start, shape).view(np.ndarray)
        except OSError as error:
            if not _cannot_map(error):
                raise
            say_once(f"note: the file system of {self.folder} maps no files into memory; they are read as a whole")
            file.seek(start)
            return np.fromfile(file, dtype, math.prod(shape)).reshape(shape)

    def chunks(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield ranges of episodes with about 16,384 rows: first episode, end, first row, end."""
        first = start = stop = 0
        for episode, record in enumerate(self.episodes, 1):
            stop += record.rows(self.name)
            if stop - start >= _CHUNK or episode == len(self.episodes):
                yield first, episode, start, stop
                first, start = episode, stop

    def step_at(self, row: int) -> str:
        """Return the episode and the step of a row, in words."""
        ends = np.cumsum([record.rows(self.name) for record in self.episodes])
        episode = int(np.searchsorted(ends, row, side="right"))
        step = row - int(ends[episode]) + self.episodes[episode].rows(self.name)
        return f"episode {episode}, step {step}"


def _verify(columns: list[_Column], description: Description, workers: int, report: Report | None) -> None:
    """Check checksums and values in threads; this reads the files."""
    mapped = [(column, column.rows) for column in columns]
    jobs = [(column, rows, chunk) for column, rows in mapped for chunk in column.chunks()]
    total, done = sum(rows[start:stop].nbytes for _, rows, (_, _, start, stop) in jobs), 0
    pool = ThreadPoolExecutor(workers)
    try:
        futures = [pool.submit(_verify_chunk, description, *job) for job in jobs]
        for future in as_completed(futures):
            done += future.result()
            if report is not None:
                report(done, total)
    finally:
        pool.shutdown(cancel_futures=True)


def _verify_chunk(description: Description, column: _Column, rows: np.ndarray, chunk: tuple[int, int, int, int]) -> int:
    """Verify one chunk; return its number of bytes."""
    first, behind, start, stop = chunk
    position = start
    for episode in range(first, behind):
        record = column.episodes[episode]
        following = position + record.rows(column.name)
        if checksum(rows[position:following]) != record.crc32.get(column.name):
            raise TrajectoryError(f"{column.path} is damaged: episode {episode} does not match its checksum")
        if column.name == REWARDS:
            _check_return(column.folder, episode, record, rows[position:following])
        position = following
    step = max(1, PIECE // max(1, math.prod(column.spec.shape)))
    for begin in range(start, stop, step):
        found = wrong_in_column(description, column.name, rows[begin : min(begin + step, stop)])
        if found is not None:
            hint = f"\n{found.hint}" if found.hint else ""
            raise TrajectoryError(f"{column.path}: {column.step_at(begin + found.row)} {found.problem}{hint}")
    return rows[start:stop].nbytes


def _check_return(folder: Path, episode: int, record: EpisodeRecord, rewards: np.ndarray) -> None:
    """Raise TrajectoryError where an episode states another return than its rewards [L] have, if all are finite."""
    problem = return_problem(record.episode_return, rewards)
    if problem and np.isfinite(rewards.sum(dtype=np.float64)):
        raise TrajectoryError(f"{folder / EPISODES} is damaged: episode {episode} {problem}")


def _cannot_map(error: OSError) -> bool:
    """Return True where a file cannot be mapped into memory, but may be read."""
    unable = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY, errno.EBADF, errno.EPERM}
    return error.errno in unable | {errno.ENODEV, errno.EACCES}
