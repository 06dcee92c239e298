"""Copies snapshots of a run directory to its address, so that what is there can be fetched at every moment."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, replace
from pathlib import Path

from maze_loggers.points import read_identity, write_identity

from maze_core import ConfigError
from maze_core.base.terminal_text import counted
from maze_mirror.address import masked
from maze_mirror.index import PART_BYTES, Index, Part, is_index, is_part, newest, number_of, session_of
from maze_mirror.snapshot import IDENTITY, Entry, Key, Snapshot
from maze_mirror.store import Store

_WHERE = "to"
_ANOTHER = "Next: name another address (--set callbacks.mirror.to=ADDRESS)"


class SupersededError(Exception):
    """Another process has continued the run and its copy."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a run directory knows of its copies, in `mirror.json`."""

    run: str
    sessions: tuple[str, ...] = ()
    """The processes that copied the run until its present state, oldest first."""
    number: int = 0
    """The greatest number of an index that they may have written."""

    @classmethod
    def read(cls, run_dir: Path) -> Identity:
        """Return the identity of a run; a new one if it has none.

        Raises:
            OSError: the file cannot be read.
        """
        values = read_identity(run_dir, IDENTITY)
        number = values.get("number", "")
        if "run" not in values or not number.isdecimal():
            return cls(secrets.token_hex(8))
        return cls(values["run"], tuple(values.get("sessions", "").split()), int(number))

    def write(self, run_dir: Path) -> None:
        """Write `mirror.json`. Raises OSError if it cannot be written."""
        values = {"run": self.run, "sessions": " ".join(self.sessions), "number": str(self.number)}
        write_identity(run_dir, IDENTITY, values)


class Copier:
    """Copies one run for one process. `claim` comes first; it and `copy` may raise whatever the file system raises."""

    def __init__(self, store: Store, run_dir: Path) -> None:
        self._store, self._run_dir = store, run_dir
        known = Identity.read(run_dir)
        self._identity = replace(known, sessions=(*known.sessions, secrets.token_hex(4)))
        self.known: dict[Key, tuple[Part, ...]] = {}
        """The stored parts of files that have not changed since."""
        self.epoch: int | None = None
        """Finished epochs of the run in its copy; None: there is no copy."""

    def claim(self) -> None:
        """Make the address this process's own.

        Raises:
            ConfigError: it holds another run, or this run as another process continued it, or something else.
        """
        sizes = self._store.sizes()
        found = newest(self._store, sizes)
        self._check(sizes, found)
        self._store.make()
        if found is not None and found.files:
            self.epoch = found.epoch
        files, epoch = (found.files, found.epoch) if found is not None else ({}, 0)
        self._point(sizes, files, epoch)

    def _check(self, sizes: dict[str, int], found: Index | None) -> None:
        address, identity = masked(self._store.address), self._identity
        strange = sorted(name for name in sizes if not (is_index(name) or is_part(name)))
        if strange:
            problem = f"{address} is not empty, and what it holds is no copy of a run ({strange[0]!r:.80})"
            raise ConfigError(problem, _WHERE, _ANOTHER)
        if found is None or not found.files:  # nothing can be lost
            return
        state = f"with {counted(found.epoch, 'epoch')}"
        fetching = f"To continue that one: maze fetch {address} FOLDER"
        if found.run != identity.run:
            raise ConfigError(f"{address} holds another run, {state}", _WHERE, f"{_ANOTHER}. {fetching}")
        if found.sessions[-1] not in identity.sessions or found.number > identity.number:
            problem = f"{address} holds this run as it was continued elsewhere, {state}"
            raise ConfigError(problem, _WHERE, f"{_ANOTHER}. {fetching}")

    def copy(self, snapshot: Snapshot) -> None:
        """Copy what is not there yet, then the index, and delete what it does not refer to.

        Raises:
            SupersededError: another process copies the run.
            OSError: a file cannot be read. Whatever else the file system raises.
        """
        sizes = self._store.sizes()
        # What an earlier process of this run still writes counts for nothing: this one has the address.
        if any(is_index(name) and session_of(name) not in self._identity.sessions for name in sizes):
            raise SupersededError
        files = {entry.path: self._parts(entry, snapshot, sizes) for entry in snapshot.entries}
        self._point(sizes, files, snapshot.epoch)
        self.known = {entry.key: files[entry.path] for entry in snapshot.entries}

    def _parts(self, entry: Entry, snapshot: Snapshot, sizes: dict[str, int]) -> tuple[Part, ...]:
        """Return the parts of a file, all of them stored."""
        known = self.known.get(entry.key)
        if known is not None and all(sizes.get(part.name) == part.size for part in known):
            return known
        parts, left = [], entry.key.size
        file = snapshot.open(entry)
        file.seek(0)
        while left > 0 and (data := file.read(min(left, PART_BYTES))):
            part = Part(hashlib.sha256(data).hexdigest(), len(data))
            if sizes.get(part.name) != part.size:
                self._store.write(part.name, data)
                sizes[part.name] = part.size
            parts.append(part)
            left -= len(data)
        self.known[entry.key] = tuple(parts)
        return tuple(parts)

    def _point(self, sizes: dict[str, int], files: dict[str, tuple[Part, ...]], epoch: int) -> None:
        """Write the next index; then delete the older ones, and parts that it does not refer to."""
        number = 1 + max([self._identity.number, *map(number_of, sizes)])
        self._identity = replace(self._identity, number=number)
        self._identity.write(self._run_dir)  # first: an index with a greater number would be another process's
        index = Index(number, self._identity.run, self._identity.sessions, epoch, files)
        self._store.write(index.name, index.encode())
        if files:
            self.epoch = epoch
        needed = index.parts
        for name in sorted(sizes, key=is_part):  # indexes first: none may refer to what is deleted
            if (is_index(name) and name != index.name) or (is_part(name) and name not in needed):
                self._store.remove(name)
