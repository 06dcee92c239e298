"""Files below a folder that anyone may have made: no link is followed, and only regular files are opened.

A run directory, a sweep's folder or a recording may come from a stranger. The path of the folder itself is the user's
word and may lead through links. Below it, whatever stands in the place of a file or folder and is none (a link, a pipe,
a device) is an OSError that names it. `root` is that folder; by default the one that holds the file.

What is written is whole or as it was before, and on the disk itself when a function returns. Nothing here guards
against a process that changes the folder at the same time.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal

Mode = Literal["rb", "r+b", "ab", "xb"]

_FLAGS: dict[Mode, int] = {
    "rb": os.O_RDONLY,
    "r+b": os.O_RDWR,
    "ab": os.O_WRONLY | os.O_APPEND | os.O_CREAT,
    "xb": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
}
# Without O_NONBLOCK, opening a pipe waits for somebody at its other end.
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_LONGEST_LINE = 1_000_000


def open_file(path: Path, mode: Mode, root: Path | None = None) -> BinaryIO:
    """Open a regular file."""
    with _holding(path, root) as folder, _naming(path):
        return _open(path.name, mode, folder)


def read_bytes(path: Path, limit: int, root: Path | None = None) -> bytes:
    """Read a whole file, which may have `limit` bytes at most."""
    with open_file(path, "rb", root) as file:
        return file.read(_size(file, path, limit))


def read_lines(path: Path, limit: int, root: Path | None = None) -> Iterator[bytes]:
    """The lines of a file that may have `limit` bytes at most, with their ends; an overlong one comes in pieces."""
    with open_file(path, "rb", root) as file:
        _size(file, path, limit)
        while line := file.readline(_LONGEST_LINE):
            yield line


def _size(file: BinaryIO, path: Path, limit: int) -> int:
    size = os.fstat(file.fileno()).st_size
    if size > limit:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes, and at most {limit:,} are read", str(path))
    return size


def write_bytes(path: Path, data: bytes, root: Path | None = None) -> None:
    """Write a file that is whole or as it was before."""
    with replacing(path, root) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, root: Path | None = None) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends; where it raises, nothing has changed."""
    with _holding(path, root) as folder, _naming(path):
        for name in _names(folder):
            if is_leftover(name, path.name):
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)
        fresh = leftover(path.name)
        try:
            with _open(fresh, "xb", folder) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(fresh, dir_fd=folder)
            raise
        os.fsync(folder)


def create(path: Path, contents: Mapping[str, bytes], root: Path) -> None:
    """Create the folder `path`, which must not be there yet, with some files in it. Call `sync` for what holds it."""
    with ExitStack() as stack:
        holding = stack.enter_context(_holding(path, root))
        with _naming(path):
            os.mkdir(path.name, dir_fd=holding)
        folder = stack.enter_context(_holding(path / "any", root))
        opened = [stack.enter_context(_open(name, "xb", folder)) for name in contents]
        # Once all is written, one trip to the disk takes most of it along.
        for file, data in zip(opened, contents.values(), strict=True):
            file.write(data)
            file.flush()
        for file in opened:
            os.fsync(file.fileno())
        os.fsync(folder)


def make_folder(path: Path, root: Path) -> None:
    """Create a folder and those above it; any of them may be there already. Call `sync` for the one that holds it."""
    root.mkdir(parents=True, exist_ok=True)
    here = root
    for part in path.relative_to(root).parts:
        here /= part
        with _holding(here, root) as parent, _naming(here):
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=parent)
            os.close(os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=parent))


def names(path: Path, root: Path) -> list[str]:
    """The names of all that is in a folder, sorted; none where there is no such folder."""
    try:
        with _holding(path / "any", root) as folder:
            return sorted(_names(folder))
    except FileNotFoundError:
        return []


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def rename(path: Path, new: Path, root: Path) -> None:
    """Give a file or folder another name in the same folder. Call `sync` for that folder after the last one."""
    with _holding(path, root) as folder, _naming(path):
        os.rename(path.name, new.name, src_dir_fd=folder, dst_dir_fd=folder)


def sync(path: Path, root: Path) -> None:
    """Bring the names in a folder to the disk itself."""
    with _holding(path / "any", root) as folder, _naming(path):
        os.fsync(folder)


def remove(path: Path, root: Path) -> None:
    """Remove a file, a folder with all that is in it, or a link, never what it leads to; or nothing."""
    with suppress(FileNotFoundError), _holding(path, root) as folder, _naming(path):
        if not stat.S_ISDIR(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(path.name, dir_fd=folder)
            return
        try:
            shutil.rmtree(path.name, dir_fd=folder)
        except RecursionError:
            raise OSError(errno.ELOOP, "its folders are nested too deeply") from None


def leftover(name: str, ending: Literal["new", "old"] = "new") -> str:
    """A fresh hidden name for what is about to become `name`, or was it: the next writer removes what keeps it."""
    return f".{name}.{secrets.token_hex(4)}.{ending}"


def is_leftover(name: str, of: str) -> bool:
    """Whether a name is one that `leftover(of)` gives, or one of earlier versions, which had no random part."""
    return re.fullmatch(rf"\.{re.escape(of)}(\.[0-9a-f]{{8}})?\.(new|old)", name) is not None


@contextmanager
def _holding(path: Path, root: Path | None) -> Iterator[int]:
    """A descriptor of the folder that holds `path`, reached from `root` without following a link."""
    here = path.parent if root is None else root
    folder = os.open(here, _FOLDER)
    try:
        for part in _below(path, here):
            here /= part
            with _naming(here):
                inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _below(path: Path, root: Path) -> tuple[str, ...]:
    """The folders between `root` and the last part of `path`."""
    depth = len(root.parts)
    inner = path.parts[depth:]
    if path.parts[:depth] != root.parts or ".." in inner or not inner:
        raise OSError(errno.EINVAL, f"it leads out of {root}", str(path))
    return inner[:-1]


def _open(name: str, mode: Mode, folder: int) -> BinaryIO:
    descriptor = os.open(name, _FLAGS[mode] | _SAFELY, 0o666, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file")
    return os.fdopen(descriptor, mode)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Say in an error which path it is about, and that it is a link where it is one."""
    try:
        yield
    except OSError as error:
        if error.errno is None or os.sep in os.fsdecode(error.filename or ""):
            raise  # it says already what it is about
        reason = error.strerror
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink():
            reason = "it is a link, which is not followed here"
        elif error.errno == errno.ENXIO:
            reason = "it is no regular file"
        raise OSError(error.errno, reason, str(path)) from None
