"""The folder at an address: a flat set of files, on any file system that fsspec knows."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from maze_core import ConfigError
from maze_core.base import files
from maze_core.base.file_systems import flush
from maze_mirror.address import masked, protocol_of

_BUCKETS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "ocilake", "tos", "hf")
"""Protocols without folders: to make one there would create a bucket."""
_FOLDER_SIZE = -1


def check_installed(address: str, where: str) -> None:
    """Check that the file system of an address is installed; nothing is connected.

    Raises:
        ConfigError: it is not, or there is none of this protocol.
    """
    from fsspec import get_filesystem_class

    protocol = protocol_of(address)
    try:
        get_filesystem_class(protocol)
    except ValueError:
        hint = "Next: another address; file://, s3://, gs://, az:// and sftp:// are the usual ones."
        raise ConfigError(f"there is no file system {protocol}:// ({masked(address)})", where, hint) from None
    except ImportError as error:
        cause = error.__cause__
        package = (cause.name or "") if isinstance(cause, ModuleNotFoundError) else ""
        package = package.partition(".")[0]
        if not package:
            raise ConfigError(f"the file system {protocol}:// cannot be imported: {cause or error}", where) from None
        problem = f"{protocol}:// needs the package {package}, which is not installed"
        raise ConfigError(problem, where, f"Next: pip install {package}") from None


class Store:
    """The files at an address, by name. Every method may raise whatever the file system raises."""

    def __init__(self, address: str) -> None:
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem

        self.address = address
        # An own instance: that of others may keep outdated listings.
        self._fs: Any
        self._fs, root = url_to_fs(address, skip_instance_cache=True)
        self._root = root.rstrip("/")
        self._on_disk = isinstance(self._fs, LocalFileSystem)

    def make(self) -> None:
        """Create the folder, where the file system has folders."""
        if protocol_of(self.address) not in _BUCKETS:
            self._fs.makedirs(self._root, exist_ok=True)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all files by name, -1 for folders; empty if there is no such folder."""
        self._fs.invalidate_cache()
        try:
            entries = self._fs.ls(self._root, detail=True)
        except FileNotFoundError:
            return {}
        found: dict[str, int] = {}
        for entry in entries:
            path = str(entry["name"]).rstrip("/")
            if path.strip("/") != self._root.strip("/"):  # buckets list the folder itself
                is_file = entry.get("type") == "file"
                found[path.rpartition("/")[2]] = int(entry.get("size") or 0) if is_file else _FOLDER_SIZE
        return found

    def read(self, name: str, limit: int) -> bytes:
        """Return at most the first `limit` bytes of a file.

        On a disk of this machine neither links nor pipes are read: the one would lead elsewhere, the other never end.
        """
        if self._on_disk:
            with files.open_file(Path(self._path(name)), "rb") as file:
                return file.read(limit)
        data = self._fs.cat_file(self._path(name), start=0, end=limit)
        return bytes(data[:limit])

    def write(self, name: str, data: bytes) -> None:
        """Write a file that does not exist, or replace one."""
        if self._on_disk:
            _write(Path(self._path(name)), data)
        else:
            self._fs.pipe_file(self._path(name), data)

    def remove(self, name: str) -> None:
        """Delete a file; a missing one is ignored."""
        with suppress(FileNotFoundError):
            self._fs.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def _write(path: Path, data: bytes) -> None:
    """Write a file, not the target of a link, and flush it to the disk."""
    try:
        file = files.open_file(path, "xb")
    except FileExistsError:
        file = files.open_file(path, "r+b")
    with file:
        file.truncate()
        file.write(data)
        file.flush()
        flush(file.fileno(), path.parent)
