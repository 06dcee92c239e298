"""Append-only files of a run, such as `metrics.jsonl`, and whether their earlier contents are unchanged."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO

from maze_core.base import files
from maze_core.base.errors import RunError
from maze_core.base.file_systems import flush
from maze_core.run.saved.manifest import Extent

METRICS_FILE = "metrics.jsonl"
"""The file with a line for each epoch."""
_CHUNK = 1 << 20


class GrowingFile:
    """Tracks the extent of an append-only file; each call reads only what is new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._done = 0
        self._hash = hashlib.sha256()

    def extent(self) -> Extent | None:
        """Flush the file to the disk and return its extent; None if there is no file.

        Raises:
            RunError: it cannot be read or flushed.
        """
        try:
            with files.open_file(self._path, "rb") as file:
                self._read_on(file)
                flush(file.fileno(), self._path.parent)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RunError(f"could not write the checkpoint that goes with {self._path}: {error.strerror}") from None
        return Extent(self._done, self._hash.hexdigest())

    def _read_on(self, file: BinaryIO) -> None:
        found = os.fstat(file.fileno())
        if found.st_ino != self._file or found.st_size < self._done:  # it was rewritten
            self._file, self._done, self._hash = found.st_ino, 0, hashlib.sha256()
        file.seek(self._done)
        while data := file.read(_CHUNK):
            self._hash.update(data)
            self._done += len(data)


def still_holds(path: Path, extent: Extent, run_dir: Path) -> bool:
    """Return True if a file in a run directory still begins with the contents it had when `extent` was taken."""
    digest, left = hashlib.sha256(), extent.bytes
    try:
        with files.open_file(path, "rb", run_dir) as file:
            while left > 0 and (data := file.read(min(_CHUNK, left))):
                digest.update(data)
                left -= len(data)
    except FileNotFoundError:
        pass
    return digest.hexdigest() == extent.sha256
