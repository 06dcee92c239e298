"""The files of a run directory at one moment, which can still be read when training has changed the directory.

Training replaces files and folders by renaming, and appends to others. So a file that is open keeps its contents, up to
the size that it had. Files that have not changed since they were last copied are not opened.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import zlib
from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from maze_core.base import files
from maze_core.plugins.config.record import RECORD

IDENTITY = "mirror.json"
"""The file of the run directory that says which copies are its own."""
_LEFT_OUT = (IDENTITY, ".lock")
_OF_NFS = ".nfs"
"""The beginning of the names that NFS gives to deleted files that are still open."""
_FIRST = ("checkpoints/", "replay/")
_MOST_OPEN = 200


class Key(NamedTuple):
    """What stays the same while a file does, also where it is renamed."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


@dataclass(slots=True)
class Entry:
    """A file."""

    path: str
    """Its path in the run directory, with `/` between the parts."""
    key: Key
    file: BinaryIO | None = None
    """The file, open for reading, if it has changed."""


class Snapshot:
    """The files of a run directory. Close it when done with it."""

    def __init__(self, run_dir: Path, epoch: int, known: Container[Key], record: bytes | None = None) -> None:
        """Note and open the files; those whose key is in `known` are not opened.

        `record` takes the place of the contents of `RECORD`.

        Raises:
            OSError: one cannot be opened.
        """
        self.epoch = epoch
        """Finished epochs of the run."""
        self._run_dir = run_dir
        self.entries = sorted(_entries(run_dir), key=lambda entry: (not entry.path.startswith(_FIRST), entry.path))
        for entry in self.entries:
            if entry.path == RECORD and record is not None:
                entry.key, entry.file = Key(-1, zlib.crc32(record), len(record), 0, 0), io.BytesIO(record)
        try:
            changed = [entry for entry in self.entries if entry.file is None and entry.key not in known]
            for entry in changed[:_MOST_OPEN]:
                # Loggers with a process of their own may have deleted it; nothing replaces checkpoints meanwhile.
                with suppress(FileNotFoundError):
                    self._open(entry)
            gone = [entry for entry in changed[:_MOST_OPEN] if entry.file is None]
            self.entries = [entry for entry in self.entries if entry not in gone]
        except BaseException:
            self.close()
            raise

    def open(self, entry: Entry) -> BinaryIO:
        """Return a changed file for reading; of very many, the last ones are opened only now.

        Raises:
            OSError: it cannot be opened, or has been replaced.
        """
        if entry.file is None:
            before = entry.key
            self._open(entry)
            if entry.key[:2] != before[:2]:
                raise OSError(errno.ESTALE, "it was replaced while it was copied", str(self._run_dir / entry.path))
        assert entry.file is not None  # noqa: S101 — for the type checker
        return entry.file

    def close(self) -> None:
        """Close all files; safe to call twice."""
        for entry in self.entries:
            if entry.file is not None:
                entry.file.close()

    def _open(self, entry: Entry) -> None:
        entry.file = files.open_file(self._run_dir / entry.path, "rb", self._run_dir)
        entry.key = _key(os.fstat(entry.file.fileno()))


def _entries(run_dir: Path) -> Iterator[Entry]:
    """Yield the regular files; links are not followed, and neither links nor devices are copied."""
    for folder, folders, names in os.walk(run_dir, onerror=_raise):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            inner = path.relative_to(run_dir).as_posix()
            try:
                found = path.lstat()
            except FileNotFoundError:
                continue
            if stat.S_ISREG(found.st_mode) and inner not in _LEFT_OUT and not name.startswith(_OF_NFS):
                yield Entry(inner, _key(found))


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _key(found: os.stat_result) -> Key:
    return Key(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
