"""Record trajectories: each episode is written as soon as it is added."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from gymnasium import Space

from maze_core.base import files
from maze_core.base.errors import RunError
from maze_core.base.file_systems import flush
from maze_core.base.tree import map_tree
from maze_core.data.trajectory import Trajectory
from maze_core.envs.spaces import LeafSpec
from maze_recordings.recording_files import (
    DESCRIPTION,
    EPISODES,
    FOLDERS,
    REWARDS,
    WRAPPED,
    Description,
    EpisodeRecord,
    TrajectoryError,
    checksum,
    column_path,
    column_problem,
    encode_record,
    is_seed,
    return_problem,
    stored,
    write_complete,
    write_description,
    write_header,
)


class TrajectoryWriter:
    """Records episodes in its own folder.

    Episodes added before an interruption of any kind are kept.

        with TrajectoryWriter("demos", env.observation_space, env.action_space) as writer:
            writer.add(trajectory)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        observation_space: Space[Any],
        action_space: Space[Any],
        source: dict[str, Any] | None = None,
        *,
        wrapped_rewards: bool = False,
    ) -> None:
        """Create the recording.

        Args:
            folder: new or empty.
            observation_space: of a single environment, as declared.
            action_space: of a single environment, as declared.
            source: the recording's origin as plain data, for `maze trajectories info`.
            wrapped_rewards: also record the rewards after the wrappers; each trajectory must have them.

        Raises:
            TrajectoryError: the folder is not empty, or cannot be written.
            ConfigError: a space is not supported.
        """
        self.folder = Path(folder)
        self.episodes = 0
        self.steps = 0
        self._description = Description(observation_space, action_space, source or {}, wrapped_rewards)
        self._specs = self._description.columns()
        self._rows = dict.fromkeys(self._specs, 0)
        self._files: dict[str, BinaryIO] = {}
        self._whole = False
        """False while there are no files, and after one could not be written."""
        try:
            self._create()
        except OSError as error:
            self.close()
            raise TrajectoryError(f"cannot record to {folder}: {error.strerror}") from error

    def _create(self) -> None:
        check_free(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, spec in self._specs.items():
            path = column_path(self.folder, name)
            files.make_folder(path.parent, self.folder)
            self._files[name] = files.open_file(path, "xb", self.folder)
            write_header(self._files[name], spec, 0)
        self._files[EPISODES] = files.open_file(self.folder / EPISODES, "xb")
        write_description(self.folder, self._description)
        self._whole = True

    def add(self, trajectory: Trajectory) -> None:
        """Append an episode: its rows, then its line in the index.

        Raises:
            TrajectoryError: the trajectory does not fit the recording's spaces.
            RunError: the disk is full or the files cannot be written; earlier episodes are kept.
        """
        columns, record = encode_episode(self._description, trajectory, self.folder)
        try:
            for name, rows in columns.items():
                self._append(name, rows)
            self._files[EPISODES].write(encode_record(record))
            self._files[EPISODES].flush()
        except OSError as error:
            self._whole = False
            kept = f"The {self.episodes} episodes written before are kept."
            raise RunError(f"could not record to {self.folder}: {error.strerror or error}. {kept}") from None
        self.episodes += 1
        self.steps += len(trajectory)

    def _append(self, name: str, rows: np.ndarray) -> None:
        file, spec = self._files[name], self._specs[name]
        write_header(file, spec, self._rows[name] + len(rows))
        file.seek(self._rows[name] * spec.nbytes, os.SEEK_CUR)
        file.write(rows.data.cast("B"))
        file.flush()
        self._rows[name] += len(rows)

    def close(self) -> None:
        """Flush everything to the disk, and note how many episodes there are; safe to call twice."""
        opened, self._files = self._files, {}
        for file in opened.values():
            try:
                file.flush()
                flush(file.fileno(), self.folder)
            except OSError as error:
                raise RunError(f"could not record to {self.folder}: {error.strerror}") from None
            finally:
                file.close()
        if opened and self._whole:
            try:
                write_complete(self.folder, self.episodes, self.steps)
            except OSError as error:
                raise RunError(f"could not record to {self.folder}: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._whole &= kind is None  # what an error has ended is readable, but not complete
        self.close()


def check_free(folder: Path) -> None:
    """Check that a folder is new or empty, so that a recording may be written there.

    Raises:
        TrajectoryError: it is not empty, or is a file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        problem = "the folder is not empty" if folder.is_dir() else "it is a file"
        raise TrajectoryError(f"cannot record to {folder}: {problem}")


def encode_episode(
    description: Description, trajectory: Trajectory, folder: Path
) -> tuple[dict[str, np.ndarray], EpisodeRecord]:
    """Return an episode's arrays by column, in the files' dtypes, and its index record.

    Raises:
        TrajectoryError: the trajectory does not fit the spaces of the recording in `folder`.
    """
    given, specs, length = columns_of(trajectory), description.columns(), len(trajectory)
    if not description.has_wrapped:
        given.pop(WRAPPED, None)
    if given.keys() != specs.keys():
        names = ", ".join(sorted(given.keys() ^ specs.keys()))
        raise TrajectoryError(f"the trajectory does not fit {folder / DESCRIPTION}: {names}")
    if not length:
        raise TrajectoryError(f"cannot record to {folder}: an episode has no steps")
    if trajectory.terminated and trajectory.truncated:
        raise TrajectoryError(f"cannot record to {folder}: an episode is both terminated and truncated")
    columns = {}
    for name, spec in specs.items():
        rows = np.asarray(given[name])
        problem = _misfit(rows, spec, length + name.startswith(FOLDERS["observation"]))
        if problem is None:
            kept = np.ascontiguousarray(rows, stored(spec.dtype))
            same = rows.dtype == spec.dtype or spec.dtype.kind == "f" or np.array_equal(kept, rows)
            problem = column_problem(description, name, kept) if same else f"holds a value that {spec.dtype} cannot"
            rows = kept
        if problem:
            raise TrajectoryError(f"cannot record to {folder}: {name} of an episode {problem}")
        columns[name] = rows
    if problem := return_problem(float(trajectory.episode_return), columns[REWARDS]):
        raise TrajectoryError(f"cannot record to {folder}: an episode {problem}")
    seed = None if trajectory.seed is None else int(trajectory.seed)
    if seed is not None and not is_seed(seed):
        raise TrajectoryError(f"cannot record to {folder}: the seed of an episode is {seed}, not a number of 64 bits")
    record = EpisodeRecord(
        length=length,
        terminated=bool(trajectory.terminated),
        truncated=bool(trajectory.truncated),
        episode_return=float(trajectory.episode_return),
        seed=seed,
        crc32=map_tree(checksum, columns),
    )
    return columns, record


def columns_of(trajectory: Trajectory) -> dict[str, np.ndarray]:
    """Return an episode's arrays by their names in a recording."""
    columns = {REWARDS: trajectory.rewards}
    if trajectory.wrapped_rewards is not None:
        columns[WRAPPED] = trajectory.wrapped_rewards
    columns |= {f"{FOLDERS['observation']}/{key}": leaf for key, leaf in trajectory.obs.items()}
    return columns | {f"{FOLDERS['action']}/{key}": leaf for key, leaf in trajectory.actions.items()}


def _misfit(rows: np.ndarray, spec: LeafSpec, length: int) -> str | None:
    expected = (length, *spec.shape)
    if rows.shape != expected:
        return f"has shape {rows.shape} instead of {expected}"
    return (
        None if np.can_cast(rows.dtype, spec.dtype, "same_kind") else f"has dtype {rows.dtype} instead of {spec.dtype}"
    )
