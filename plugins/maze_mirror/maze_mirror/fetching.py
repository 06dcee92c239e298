"""Copies a run back from its address. What the address holds may come from anyone."""

from __future__ import annotations

import errno
import os
import re
import time
from contextlib import suppress
from pathlib import Path

from maze_core import ConfigError, RunError
from maze_core.base import files
from maze_core.base.file_systems import flush, free_bytes, take_lock
from maze_core.base.terminal_text import printable
from maze_mirror.address import checked, masked, reason
from maze_mirror.copier import Identity
from maze_mirror.index import Index, Part, newest
from maze_mirror.store import Store, check_installed

_ADDRESS, _FOLDER = "ADDRESS", "FOLDER"
_RUNS = Path("runs")
_ATTEMPTS = 3
_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}\.new", re.DOTALL)
"""Hidden names of folders that are being fetched, as `files.leftover` makes them."""
_YOUNG = 60.0
"""Seconds for which an empty folder may belong to a fetch that has just begun."""


class _ChangedError(Exception):
    """A part is missing or damaged: the run may have been copied anew meanwhile."""


def fetch_run(address: str, folder: Path | None = None) -> tuple[Path, Index]:
    """Copy the run at an address to a new folder; None: one of its name below `runs/`.

    The folder appears when it is complete.

    Returns:
        The folder, and what it holds.

    Raises:
        ConfigError: there is no run at the address, or the folder exists or cannot be written.
        RunError: the address cannot be read, or the copy is damaged.
    """
    try:
        address = checked(address)
    except ValueError as error:
        raise ConfigError(str(error), _ADDRESS) from None
    check_installed(address, _ADDRESS)
    folder = _RUNS / address.rpartition("/")[2] if folder is None else folder
    if os.path.lexists(folder):
        raise ConfigError(f"{printable(folder)} exists already", _FOLDER, "Next: name a new folder.")
    for attempt in range(_ATTEMPTS):
        try:
            store = Store(address)
            index = _index(store)
            return folder, _placed(store, index, folder)
        except _ChangedError as error:
            if attempt == _ATTEMPTS - 1:
                raise RunError(f"the copy at {masked(address)} is damaged: {error}") from None
        except (ConfigError, RunError):
            raise
        except Exception as error:  # noqa: BLE001 — a file system may raise anything
            raise RunError(f"{masked(address)} cannot be read: {reason(error)}") from None
    raise AssertionError("unreachable")


def read_file(address: str, path: str) -> bytes:
    """Return the contents of one file of the run at an address.

    Raises:
        ConfigError: there is no run at the address, or no such file in it.
        RunError: the address cannot be read, or the copy is damaged.
    """
    try:
        store = Store(checked(address))
        parts = _index(store).files.get(path)
        if parts is None:
            raise ConfigError(f"the run at {masked(address)} has no file {printable(path)}", _ADDRESS)
        return b"".join(_read(store, part) for part in parts)
    except (ConfigError, RunError):
        raise
    except _ChangedError as error:
        raise RunError(f"the copy at {masked(address)} has changed: {error}") from None
    except Exception as error:  # noqa: BLE001 — a file system may raise anything
        raise RunError(f"{masked(address)} cannot be read: {reason(error)}") from None


def _index(store: Store) -> Index:
    sizes = store.sizes()
    index = newest(store, sizes, complete=True) or newest(store, sizes)
    if index is None:
        raise ConfigError(f"there is no copy of a run at {masked(store.address)}", _ADDRESS)
    if not index.files:
        problem = f"{masked(store.address)} holds no complete copy yet: its run has just begun, or was killed then"
        raise ConfigError(problem, _ADDRESS)
    return index


def _placed(store: Store, index: Index, folder: Path) -> Index:
    """Copy the files into a hidden folder, which gets its name at the end."""
    fresh = folder.with_name(files.leftover(folder.name))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder.parent)
        free = free_bytes(folder.parent)
        if free is not None and free < index.size:
            problem = f"the disk is full: {free / 1e6:.1f} MB free, and the run has {index.size / 1e6:.1f} MB"
            raise ConfigError(problem, _FOLDER, "Next: free some space, or name a folder on another disk.")
        fresh.mkdir()
        held = _hold(fresh)
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        for path, parts in index.files.items():
            _write(store, fresh, path, parts)
        _finish(fresh, folder, index)
    except BaseException:
        with suppress(OSError):
            files.remove(fresh, fresh.parent)
        raise
    finally:
        os.close(held)
    return index


def _hold(folder: Path, wait: bool = True) -> int:
    """Return a descriptor of a folder, which this process holds until that is closed or the process ends.

    Raises:
        OSError: it is no folder, or another process holds it and `wait` is False.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    if not take_lock(descriptor, wait=wait) and not wait:
        os.close(descriptor)
        raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), str(folder))
    return descriptor  # without locks in this file system, nobody removes the folder


def _remove_leftovers(parent: Path) -> None:
    """Remove the hidden folders of fetches that were killed; those that another process holds stay."""
    with suppress(OSError):
        for name in files.names(parent, parent):
            if _LEFTOVER.fullmatch(name):
                with suppress(OSError):
                    _remove_leftover(parent / name)


def _remove_leftover(folder: Path) -> None:
    held = _hold(folder, wait=False)
    try:
        begun = files.names(folder, folder) or time.time() - os.fstat(held).st_mtime > _YOUNG
        if begun:  # an empty one may have been made just now, and is not held yet
            files.remove(folder, folder.parent)
    finally:
        os.close(held)


def _write(store: Store, root: Path, path: str, parts: tuple[Part, ...]) -> None:
    """Write a file below `root`, whatever its path: the functions used refuse to leave that folder."""
    target = root.joinpath(*path.split("/"))
    try:
        files.make_folder(target.parent, root)
        file = files.open_file(target, "xb", root)
    except OSError as error:
        raise _unwritable(target, error) from None
    with file:
        for part in parts:
            data = _read(store, part)
            try:
                file.write(data)
                file.flush()
            except OSError as error:
                raise _unwritable(target, error) from None
        flush(file.fileno(), root)


def _read(store: Store, part: Part) -> bytes:
    try:
        data = store.read(part.name, part.size)
    except FileNotFoundError:
        raise _ChangedError(f"{part.name} is missing") from None
    try:
        part.check(data)
    except ValueError as error:
        raise _ChangedError(str(error)) from None
    return data


def _finish(fresh: Path, folder: Path, index: Index) -> None:
    try:
        Identity(index.run, index.sessions, index.number).write(fresh)
        if os.path.lexists(folder):
            raise ConfigError(f"{printable(folder)} exists already", _FOLDER, "Next: name a new folder.")
        fresh.rename(folder)
        files.sync(folder.parent, folder.parent)
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{printable(path)} cannot be written: {error.strerror or error}", _FOLDER)
