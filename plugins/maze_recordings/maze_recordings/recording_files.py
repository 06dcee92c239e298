"""The files of a recording, readable with public tools: JSON, JSON lines and NumPy's `.npy`.

    trajectories.json            format, version, the two spaces, where the recording comes from, a checksum
    episodes.jsonl               a line for each episode: length, flags, return, checksums of its rows and of the line
    observations/KEY.npy         one leaf of the observations, the episodes one after the other, each L + 1 rows
    actions/KEY.npy              one leaf of the actions, L rows each
    rewards.npy                  float32, L rows each: those of the environment, before the wrappers of a run
    wrapped_rewards.npy          float32, L rows each: those after the wrappers, where they were asked for
    complete.json                written at the end: how many episodes and steps were recorded, with a checksum

An episode is appended to the arrays first and to `episodes.jsonl` last. Only episodes listed there are recorded:
further rows in the arrays are the remains of an interruption.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import numpy as np
from gymnasium import Space

from maze_core import MazeError, flatten_space
from maze_core.base import files
from maze_core.base.plain_json import checksummed, is_count, is_number, parse_object, unsealed
from maze_core.base.terminal_text import argument, counted, shown
from maze_core.envs.spaces import LeafSpec, Role, space_specs
from maze_recordings.recorded_values import WrongValue, wrong_value
from maze_recordings.space_json import space_from_json, space_to_json

FORMAT, VERSION = "maze-trajectories", 2

_DESCRIPTION_BYTES, _EPISODES_BYTES, _COMPLETE_BYTES = 100_000_000, 4_000_000_000, 10_000
_ANYWAY = "Next: copy the recording again. To use the episodes that are left, delete {path}"
DESCRIPTION, EPISODES, COMPLETE = "trajectories.json", "episodes.jsonl", "complete.json"
REWARDS, WRAPPED = "rewards", "wrapped_rewards"
FOLDERS: dict[Role, str] = {"observation": "observations", "action": "actions"}

PIECE = 2**22
"""Numbers that are looked at together, so that episodes of any length take little memory."""
_ROUNDING = 1e-4
# Of a sum in float32, as a share of the sum of the sizes.
_KIND = "rewards"


class TrajectoryError(MazeError):
    """A recording is missing, damaged, empty, of another format or does not fit. The message names the file."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Description:
    """The content of `trajectories.json`."""

    observation_space: Space[Any]
    action_space: Space[Any]
    source: dict[str, Any]
    """The origin of the recording as plain data, such as policy, environment and seed."""
    has_wrapped: bool = False
    """True where the rewards after the wrappers are recorded beside those of the environment."""

    @property
    def rewards(self) -> str:
        """What the recorded rewards are, in words."""
        return "of the environment" + (", and those after the wrappers" if self.has_wrapped else "")

    def space(self, role: Role) -> Space[Any]:
        """Return the observation or action space."""
        return self.observation_space if role == "observation" else self.action_space

    def columns(self) -> dict[str, LeafSpec]:
        """Return the storage of one row of each array, by the array's name: its path without `.npy`."""
        number = LeafSpec((), np.dtype(np.float32))
        columns = {REWARDS: number, WRAPPED: number} if self.has_wrapped else {REWARDS: number}
        for role, folder in FOLDERS.items():
            columns |= {f"{folder}/{key}": spec for key, spec in space_specs(self.space(role), role).items()}
        return columns


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """One line of `episodes.jsonl`."""

    length: int
    """Number of actions; there is one more observation."""
    terminated: bool
    truncated: bool
    episode_return: float
    """Sum of the rewards of the environment."""
    seed: int | None
    """The seed passed to the environment's `reset`; None if unknown."""
    crc32: dict[str, int]
    """The checksum of this episode's rows in each array."""
    parameters: dict[str, bool | int | float | str] | None = None
    """Those of the environment; None where they do not change."""

    def rows(self, column: str) -> int:
        """Return the number of this episode's rows in an array."""
        return self.length + column.startswith(FOLDERS["observation"])


def column_path(folder: Path, column: str) -> Path:
    """Return the file of an array; characters that file systems refuse are percent-encoded."""
    return folder / f"{quote(column, safe='/ ')}.npy"


def column_role(column: str) -> Role | None:
    """Return the role of an array: observation, action, or None."""
    return next((role for role, folder in FOLDERS.items() if column.startswith(f"{folder}/")), None)


def wrong_in_column(description: Description, column: str, rows: np.ndarray) -> WrongValue | None:
    """Return the first value of an array's rows that cannot be used; None if all can be."""
    role = column_role(column)
    leaf = flatten_space(description.space(role), role)[column.partition("/")[2]] if role else None
    return wrong_value(rows, leaf, role)


def is_seed(value: object) -> bool:
    """Return True for a seed of 64 bits, as Minari draws them."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


def return_problem(stated: float, rewards: np.ndarray) -> str | None:
    """Return how the return that an episode states differs from its rewards, [L]; None if it is their sum.

    Rewards were rounded to float32, and others may have added them up in it.
    """
    total = float(rewards.sum(dtype=np.float64))
    if abs(stated - total) <= _ROUNDING * abs(total):
        return None  # mostly: the sum of their sizes is larger
    pieces = (rewards[start : start + PIECE] for start in range(0, len(rewards), PIECE))
    size = sum(float(np.abs(each).sum(dtype=np.float64)) for each in pieces)
    if abs(stated - total) <= _ROUNDING * size + float(np.finfo(np.float32).tiny) * len(rewards):
        return None
    return f"has a return of {stated:.9g}, but its rewards add up to {total:.9g}"


def checksum(rows: np.ndarray) -> int:
    """Return the CRC-32 of some rows' bytes, little-endian as in the file."""
    return zlib.crc32(np.ascontiguousarray(rows).data.cast("B")) if rows.size else 0


def write_header(file: BinaryIO, spec: LeafSpec, rows: int) -> None:
    """Write the `.npy` header at the file's start. NumPy pads it, so its length never changes."""
    file.seek(0)
    layout = {"descr": np.lib.format.dtype_to_descr(stored(spec.dtype)), "fortran_order": False}
    np.lib.format.write_array_header_1_0(file, {**layout, "shape": (rows, *spec.shape)})


def stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in files: little-endian on every machine."""
    return dtype.newbyteorder("<")


def write_description(folder: Path, description: Description) -> None:
    """Write `trajectories.json` atomically."""
    observation, action = space_to_json(description.observation_space), space_to_json(description.action_space)
    head = {"format": FORMAT, "version": VERSION, "observation_space": observation, "action_space": action}
    head |= {_KIND: "raw", "wrapped_rewards": description.has_wrapped}
    text = json.dumps(checksummed({**head, "source": description.source}), indent=1, allow_nan=False)
    files.write_bytes(folder / DESCRIPTION, text.encode())


def read_description(folder: Path) -> Description:
    """Read `trajectories.json`.

    Raises:
        TrajectoryError: it is missing, damaged, or of another format or version.
    """
    path = folder / DESCRIPTION
    try:
        data = parse_object(files.read_bytes(path, _DESCRIPTION_BYTES))
        if data.get("format") != FORMAT:
            raise ValueError("it does not describe recorded trajectories")
        if data["version"] != VERSION or type(data["version"]) is not int:
            raise ValueError(f"it has version {shown(data['version'])}; this version of Maze reads {VERSION}")
        data = unsealed(data)
        pair = [space_from_json(data[name]) for name in ("observation_space", "action_space")]
        source, has_wrapped = dict(data["source"]), data["wrapped_rewards"]
        if type(has_wrapped) is not bool or data[_KIND] != "raw":
            raise ValueError("it does not say which rewards are recorded")
        description = Description(pair[0], pair[1], source, has_wrapped)
        description.columns()
    except (OSError, ValueError, KeyError, TypeError, RecursionError, MazeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else getattr(error, "strerror", None) or str(error)
        # What helps where an environment has such a space does not help here.
        raise TrajectoryError(f"{path} cannot be used: {reason.partition(chr(10))[0]}") from error
    return description


def encode_record(record: EpisodeRecord) -> bytes:
    """Return an episode's line of `episodes.jsonl`."""
    return json.dumps(checksummed(asdict(record)), allow_nan=False).encode() + b"\n"


def write_complete(folder: Path, episodes: int, steps: int) -> None:
    """Write at the end of a recording how much it holds."""
    files.write_bytes(folder / COMPLETE, json.dumps(checksummed({"episodes": episodes, "steps": steps})).encode())


def read_complete(folder: Path) -> int | None:
    """Return how many episodes were recorded; None if the recording does not say that it is complete.

    Raises:
        TrajectoryError: the file is damaged.
    """
    path = folder / COMPLETE
    try:
        episodes = unsealed(parse_object(files.read_bytes(path, _COMPLETE_BYTES)))["episodes"]
        if not is_count(episodes):
            raise ValueError("it names no number of episodes")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TrajectoryError(f"{path} is damaged: {reason}\n{_ANYWAY.format(path=argument(path))}") from error
    return int(episodes)


def check_complete(folder: Path, records: list[EpisodeRecord]) -> str:
    """Return a warning if a recording does not say that it is complete; empty if it does.

    Raises:
        TrajectoryError: it has lost episodes.
    """
    path, recorded = folder / COMPLETE, read_complete(folder)
    if recorded is None:
        listed = counted(len(records), "episode")
        return f"{path} is missing: the recording was interrupted, or has lost that file. It lists {listed}"
    if recorded != len(records):
        problem = f"is damaged: it lists {len(records)} of the {recorded} episodes that were recorded"
        raise TrajectoryError(f"{folder / EPISODES} {problem}\n{_ANYWAY.format(path=argument(path))}")
    return ""


def read_records(folder: Path) -> list[EpisodeRecord]:
    """Return the episodes of a recording. A last line without an end, left by an interruption, is ignored.

    Raises:
        TrajectoryError: the file is missing or a line is damaged.
    """
    path = folder / EPISODES
    records = []
    try:
        for number, line in enumerate(files.read_lines(path, _EPISODES_BYTES), 1):
            try:
                if line.endswith(b"\n"):
                    records.append(_record(unsealed(parse_object(line))))
            except (ValueError, KeyError, TypeError) as error:
                raise TrajectoryError(f"{path} is damaged at line {number}: {line[:80]!r}") from error
    except OSError as error:
        raise TrajectoryError(f"{path} cannot be read: {error.strerror}") from error
    return records


def _record(data: Any) -> EpisodeRecord:
    record = EpisodeRecord(**data)
    if not isinstance(record.crc32, dict) or not (record.seed is None or is_seed(record.seed)):
        raise ValueError("wrong types")
    values = record.parameters or {}
    if not isinstance(values, dict) or not all(isinstance(each, bool | int | float | str) for each in values.values()):
        raise ValueError("wrong types")
    sound = all(map(is_count, [record.length, *record.crc32.values()])) and record.length
    if not sound or type(record.terminated) is not bool or type(record.truncated) is not bool:
        raise ValueError("wrong types")
    if (record.terminated and record.truncated) or not is_number(record.episode_return):
        raise ValueError("wrong values")
    return record
