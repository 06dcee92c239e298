"""The index of a copy: which files the run directory had at one moment, and which stored parts they consist of.

    index-00000012-3f9c02aa.json    the number of the copy, and the process that wrote it
    data-<sha256>                   a part of a file, named by its contents

No stored file is ever changed. A new copy first stores the parts that are missing, then its index under the next
number, and then deletes older indexes and the parts that only they refer to. So whenever writing ends, the index with
the greatest number that is whole describes files that are all there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from typing import Any

from maze_core.base.terminal_text import printable, shown
from maze_mirror.store import Store

FORMAT = 1
PART_BYTES = 8 * 2**20
"""Size of all parts of a file but the last: of a file that has grown, only the last one is stored again."""
_MOST_PART_BYTES = 64 * 2**20
_MOST_INDEX_BYTES = 100_000_000
_LONGEST_PATH = 1000

_INDEX = re.compile(r"index-(\d{8,12})-([0-9a-f]{8})\.json")
_DATA = re.compile(r"data-([0-9a-f]{64})")
_TOKEN = re.compile(r"[0-9a-f]{8}")
_IDENTITY = re.compile(r"[0-9a-f]{16}")


class CutShortError(ValueError):
    """An index that is not what was written: its process died meanwhile, or it is damaged."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes of a file."""

    sha256: str
    size: int

    @property
    def name(self) -> str:
        """The name under which it is stored."""
        return f"data-{self.sha256}"

    def check(self, data: bytes) -> None:
        """Raise ValueError if these are not the bytes."""
        if len(data) != self.size or hashlib.sha256(data).hexdigest() != self.sha256:
            raise ValueError(f"{self.name} is damaged")


@dataclass(frozen=True, slots=True)
class Index:
    """The run directory at one moment."""

    number: int
    """Greater than those of all earlier copies of the run."""
    run: str
    """The identity of the run."""
    sessions: tuple[str, ...]
    """The processes that copied it, oldest first; the last one wrote this index."""
    epoch: int
    """Finished epochs of the run."""
    files: dict[str, tuple[Part, ...]] = field(default_factory=dict)
    """The parts of each file, by path in the run directory."""

    @property
    def name(self) -> str:
        """The name under which it is stored."""
        return f"index-{self.number:08d}-{self.sessions[-1]}.json"

    @property
    def parts(self) -> set[str]:
        """The names of all parts."""
        return {part.name for parts in self.files.values() for part in parts}

    @property
    def size(self) -> int:
        """The size of all files."""
        return sum(part.size for parts in self.files.values() for part in parts)

    def encode(self) -> bytes:
        """Return the file's contents: a line with the checksum of the rest, and JSON."""
        files = {path: [[part.sha256, part.size] for part in parts] for path, parts in self.files.items()}
        facts = {"format": FORMAT, "number": self.number, "run": self.run, "sessions": self.sessions}
        body = json.dumps({**facts, "epoch": self.epoch, "files": files}).encode()
        return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def decode(data: bytes) -> Index:
    """Return the index in a file; it may come from anyone.

    Raises:
        CutShortError: its checksum does not match.
        ValueError: it has another format, or names a path outside of the run directory.
    """
    digest, _, body = data.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise CutShortError("its checksum does not match")
    try:
        values = json.loads(body)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ValueError(f"it does not have format {FORMAT}, which this version of maze-mirror reads")
    number, epoch, sessions, files = (values.get(key) for key in ("number", "epoch", "sessions", "files"))
    run = values.get("run")
    if not (_is_count(number) and _is_count(epoch) and isinstance(run, str) and _IDENTITY.fullmatch(run)):
        raise ValueError("its numbers are damaged")
    if not isinstance(sessions, list) or not sessions or not all(_is_token(each) for each in sessions):
        raise ValueError("its sessions are damaged")
    if not isinstance(files, dict):
        raise ValueError("it lists no files")
    listed = {_checked_path(path): tuple(map(_part, _listed(parts))) for path, parts in files.items()}
    return Index(number, run, tuple(sessions), epoch, listed)  # type: ignore[arg-type]  # checked above


def newest(store: Store, sizes: dict[str, int], complete: bool = False) -> Index | None:
    """Return the newest index that is whole; None if there is none.

    One that was cut short while it was written is passed over. `sizes` are those of `store`; with `complete`, an index
    is passed over, too, if a part of it is missing.

    Raises:
        ValueError: it has another format, or names a path outside of the run directory.
    """
    for name in sorted(filter(is_index, sizes), key=number_of, reverse=True):
        try:
            found = decode(store.read(name, _MOST_INDEX_BYTES))
        except (CutShortError, FileNotFoundError):
            continue
        if found.name != name:
            raise ValueError(f"{name} is the index of another name")
        parts = (part for each in found.files.values() for part in each)
        if not complete or all(sizes.get(part.name) == part.size for part in parts):
            return found
    return None


def is_index(name: str) -> bool:
    """Return True for the name of an index."""
    return _INDEX.fullmatch(name) is not None


def is_part(name: str) -> bool:
    """Return True for the name of a part."""
    return _DATA.fullmatch(name) is not None


def number_of(name: str) -> int:
    """Return the number in the name of an index."""
    found = _INDEX.fullmatch(name)
    return int(found[1]) if found else 0


def session_of(name: str) -> str:
    """Return which process wrote the index of this name."""
    found = _INDEX.fullmatch(name)
    return found[2] if found else ""


def _checked_path(path: str) -> str:
    """Return a path in the run directory. Raises ValueError for any other."""
    parts = path.split("/")
    if len(path) > _LONGEST_PATH or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"it names the path {printable(shown(path))}, which is none in a run directory")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise ValueError(f"it names the path {printable(shown(path))}, which no file can have") from None
    return path


def _listed(parts: Any) -> list[Any]:
    if not isinstance(parts, list):
        raise ValueError("its parts are damaged")
    return parts


def _part(value: Any) -> Part:
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str) or not _is_count(value[1]):
        raise ValueError("its parts are damaged")
    part = Part(*value)
    if not is_part(part.name) or not 0 < part.size <= _MOST_PART_BYTES:
        raise ValueError("its parts are damaged")
    return part


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_token(value: Any) -> bool:
    return isinstance(value, str) and _TOKEN.fullmatch(value) is not None
