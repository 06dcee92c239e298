"""Record trajectories: each episode is written as soon as it is added."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from gymnasium import Space

from maze_core import RunError, Trajectory, map_tree
from maze_core.base import files
from maze_core.base.file_systems import flush
from maze_core.envs.spaces import LeafSpec
from maze_recordings.recording_files import (
    EPISODES,
    FOLDERS,
    REWARDS,
    WRAPPED,
    Description,
    EpisodeRecord,
    TrajectoryError,
    checksum,
    column_path,
    encode_record,
    is_seed,
    return_problem,
    stored,
    write_complete,
    write_description,
    write_header,
    wrong_in_column,
)
from maze_recordings.whole_folders import discard, hidden_place, move


class UnfitEpisodeError(ValueError):
    """An episode that cannot be recorded. The message says what is wrong with it; `hint` what next, if not empty."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint


class TrajectoryWriter:
    """Records episodes in its own folder.

    Episodes added before an interruption of any kind are kept. Where the first one fails, nothing is left behind.

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
        whole: bool = False,
    ) -> None:
        """Create the recording.

        Args:
            folder: new or empty.
            observation_space: of a single environment, as declared.
            action_space: of a single environment, as declared.
            source: the recording's origin as plain data, for `maze trajectories info`.
            wrapped_rewards: also record the rewards after the wrappers; each trajectory must have them.
            whole: all or nothing: the folder appears when the recording is closed, and stays away after an error.

        Raises:
            TrajectoryError: the folder is not empty, or cannot be written.
            ConfigError: a space is not supported.
        """
        self.folder = Path(folder)
        self.episodes = 0
        self.steps = 0
        self._whole, self._made = whole, False
        self._place = self.folder
        """Where the files are."""
        self._description = Description(observation_space, action_space, source or {}, wrapped_rewards)
        self._specs = self._description.columns()
        self._rows = dict.fromkeys(self._specs, 0)
        self._files: dict[str, BinaryIO] = {}
        self._sound = False
        """False while there are no files, and after one could not be written."""
        try:
            check_free(self.folder)
            self._create()
        except OSError as error:
            self.close()
            discard(self._place, itself=self._made)
            raise TrajectoryError(f"cannot record to {folder}: {error.strerror}") from error

    def _create(self) -> None:
        self._made = self._whole or not self.folder.exists()
        place = self._place = hidden_place(self.folder) if self._whole else self.folder
        place.mkdir(parents=True, exist_ok=True)
        for name, spec in self._specs.items():
            path = column_path(place, name)
            files.make_folder(path.parent, place)
            self._files[name] = files.open_file(path, "xb", place)
            write_header(self._files[name], spec, 0)
        self._files[EPISODES] = files.open_file(place / EPISODES, "xb")
        write_description(place, self._description)
        self._sound = True

    def add(self, trajectory: Trajectory) -> None:
        """Append an episode: its rows, then its line in the index.

        Raises:
            TrajectoryError: the trajectory does not fit the recording's spaces.
            RunError: the disk is full or the files cannot be written; earlier episodes are kept.
        """
        try:
            columns, record = encode_episode(self._description, trajectory)
        except UnfitEpisodeError as error:
            hint = f"\n{error.hint}" if error.hint else ""
            raise TrajectoryError(f"cannot record to {self.folder}: episode {self.episodes}: {error}{hint}") from None
        self.append(columns, record)

    def append(self, columns: dict[str, np.ndarray], record: EpisodeRecord) -> None:
        """Append an episode as `encode_episode` returns it. Raises RunError as `add` does."""
        try:
            for name, rows in columns.items():
                self._append(name, rows)
            self._files[EPISODES].write(encode_record(record))
            self._files[EPISODES].flush()
        except OSError as error:
            self._sound = False
            kept = "" if self._whole else f". The {self.episodes} episodes written before are kept."
            raise RunError(f"could not record to {self.folder}: {error.strerror or error}{kept}") from None
        self.episodes += 1
        self.steps += record.length

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
        if opened and self._sound:
            try:
                write_complete(self._place, self.episodes, self.steps)
                if self._whole:
                    move(self._place, self.folder)
            except OSError as error:
                raise RunError(f"could not record to {self.folder}: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sound &= kind is None  # what an error has ended is readable, but not complete
        try:
            self.close()
        except RunError:
            self._sound = False
            raise
        finally:
            if not self._sound and (self._whole or not self.episodes):
                discard(self._place, itself=self._made)


def check_free(folder: Path) -> None:
    """Check that a folder is new or empty, so that a recording may be written there.

    Raises:
        TrajectoryError: it is not empty, or is a file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        problem = "the folder is not empty" if folder.is_dir() else "it is a file"
        raise TrajectoryError(f"cannot record to {folder}: {problem}")


def encode_episode(description: Description, trajectory: Trajectory) -> tuple[dict[str, np.ndarray], EpisodeRecord]:
    """Return an episode's arrays by column, in the files' dtypes, and its index record.

    Raises:
        UnfitEpisodeError: the trajectory does not fit the spaces of the recording, or has a value that cannot be used.
    """
    given, specs, length = columns_of(trajectory), description.columns(), len(trajectory)
    if not description.has_wrapped:
        given.pop(WRAPPED, None)
    if given.keys() != specs.keys():
        names = ", ".join(sorted(given.keys() ^ specs.keys()))
        raise UnfitEpisodeError(f"its arrays are not those of the spaces: {names}")
    if not length:
        raise UnfitEpisodeError("it has no steps")
    if trajectory.terminated and trajectory.truncated:
        raise UnfitEpisodeError("it is both terminated and truncated")
    columns = {name: _column(description, name, spec, given[name], length) for name, spec in specs.items()}
    if problem := return_problem(float(trajectory.episode_return), columns[REWARDS]):
        raise UnfitEpisodeError(f"it {problem}")
    seed = None if trajectory.seed is None else int(trajectory.seed)
    if seed is not None and not is_seed(seed):
        raise UnfitEpisodeError(f"its seed is {seed}, not a number of 64 bits")
    record = EpisodeRecord(
        length=length,
        terminated=bool(trajectory.terminated),
        truncated=bool(trajectory.truncated),
        episode_return=float(trajectory.episode_return),
        seed=seed,
        crc32=map_tree(checksum, columns),
        parameters=None if trajectory.parameters is None else dict(trajectory.parameters),
    )
    return columns, record


def _column(description: Description, name: str, spec: LeafSpec, given: Any, length: int) -> np.ndarray:
    """Return one array of an episode in the dtype of its file."""
    rows = np.asarray(given)
    if (problem := _misfit(rows, spec, length + name.startswith(FOLDERS["observation"]))) is not None:
        raise UnfitEpisodeError(f"{name} {problem}")
    with np.errstate(over="ignore"):  # said below: infinite is not finite
        kept = np.ascontiguousarray(rows, stored(spec.dtype))
    if rows.dtype != spec.dtype and spec.dtype.kind != "f" and not np.array_equal(kept, rows):
        step = int(np.argwhere(kept != rows)[0][0])
        raise UnfitEpisodeError(f"{name} of step {step} holds a value that {spec.dtype} cannot")
    if (found := wrong_in_column(description, name, kept)) is not None:
        raise UnfitEpisodeError(f"{name} of step {found.row} {found.problem}", found.hint)
    return kept


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
