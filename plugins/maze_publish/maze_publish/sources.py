"""Where the files of a published policy come from: a folder, an archive, a folder behind HTTP or in an object store.

A source has `read(name, limit)`, which raises FileNotFoundError for a missing file, and ValueError, OSError or RunError
for one that cannot be read.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from maze_core import ConfigError, RunError
from maze_core.base import files
from maze_core.base.terminal_text import printable
from maze_publish.address import Address, masked
from maze_publish.archive import Archive
from maze_publish.download import MissingError, download
from maze_publish.limits import Limits


class Source(Protocol):
    """The files of a published policy."""

    def read(self, name: str, limit: int) -> bytes:
        """Return a file of at most `limit` bytes."""


class Folder:
    """The files in a folder of this machine; links in it are not followed."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, name: str, limit: int) -> bytes:
        """Return a file of at most `limit` bytes."""
        return files.read_bytes(self._root / name, limit, self._root)


class HttpFolder:
    """The files behind the URL of a folder."""

    def __init__(self, url: str, limits: Limits) -> None:
        self._url, self._limits = url.rstrip("/"), limits
        self._deadline = time.monotonic() + limits.seconds

    def read(self, name: str, limit: int) -> bytes:
        """Return a file of at most `limit` bytes."""
        try:
            return download(f"{self._url}/{quote(name)}", limit, self._limits, self._deadline)
        except MissingError:
            raise FileNotFoundError(name) from None


class StoreFolder:
    """The files in a folder of a file system of fsspec."""

    def __init__(self, address: str) -> None:
        self._fs, self._root = file_system(address)

    def read(self, name: str, limit: int) -> bytes:
        """Return a file of at most `limit` bytes."""
        return read_from_store(self._fs, f"{self._root}/{name}", limit)


def file_system(address: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path in it.

    Raises:
        ConfigError: it is not installed, or there is none of this protocol.
    """
    from fsspec.core import url_to_fs

    try:
        system, root = url_to_fs(address, skip_instance_cache=True)
    except (ImportError, ValueError) as error:
        problem = f"{masked(address)} cannot be used: {printable(error, 200)}"
        raise ConfigError(problem, "ADDRESS", 'Next: another address, or pip install "maze-mirror[s3]"') from None
    return system, str(root).rstrip("/")


def read_from_store(system: Any, path: str, limit: int) -> bytes:
    """Return a file in a store. Errors as for a source."""
    try:
        data = bytes(system.cat_file(path, start=0, end=limit + 1))
    except FileNotFoundError:
        raise
    except Exception as error:  # noqa: BLE001 — a file system may raise anything
        raise RunError(f"{printable(path, 200)} cannot be read: {printable(error, 200)}") from None
    if len(data) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return data


def source_of(address: Address, limits: Limits) -> Source:
    """Return where the files at an address come from; the zoo is looked up before.

    Raises:
        FileNotFoundError: there is no archive.
        ConfigError, OSError, RunError, ValueError: it cannot be read.
    """
    if not address.is_archive:
        if address.kind == "http":
            return HttpFolder(address.place, limits)
        return StoreFolder(address.place) if address.kind == "store" else Folder(Path(address.place))
    return Archive(_archive_bytes(address, limits))


def _archive_bytes(address: Address, limits: Limits) -> bytes:
    if address.kind == "store":
        return read_from_store(*file_system(address.place), limits.bytes)
    if address.kind == "path":
        return files.read_bytes(Path(address.place), limits.bytes)
    try:
        return download(address.place, limits.bytes, limits, time.monotonic() + limits.seconds)
    except MissingError:
        raise FileNotFoundError(address.place) from None
