"""Safe access to files in an untrusted folder: no link is followed, and only regular files are opened.

A run directory, a sweep's folder or a recording may come from a stranger. The user names the folder itself, and that
path may contain links. Below it, a link, pipe or device in place of a file or folder raises an OSError that names it.
`root` is the user's folder; by default the parent of the file.

Writes are atomic, and flushed to the disk when a function returns. Nothing here protects against a process that
changes the folder at the same time. Temporary folders (`GuardedFolder`) do not outlive their process.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal

from maze_core.base.file_systems import flush, is_in_use

Mode = Literal["rb", "r+b", "ab", "xb"]

_FLAGS: dict[Mode, int] = {
    "rb": os.O_RDONLY,
    "r+b": os.O_RDWR,
    "ab": os.O_WRONLY | os.O_APPEND | os.O_CREAT,
    "xb": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
}
# Without O_NONBLOCK, opening a pipe would wait for a process at its other end.
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_LONGEST_LINE = 1_000_000
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES)
"""Errors of a file that cannot have a second name there: another disk, or a file system without such names."""


def open_file(path: Path, mode: Mode, root: Path | None = None) -> BinaryIO:
    """Open a regular file."""
    with _holding(path, root) as folder, _naming(path):
        return _open(path.name, mode, folder)


def read_bytes(path: Path, limit: int, root: Path | None = None) -> bytes:
    """Return the contents of a file of at most `limit` bytes."""
    with open_file(path, "rb", root) as file:
        return file.read(_size(file, path, limit))


def read_lines(path: Path, limit: int, root: Path | None = None) -> Iterator[bytes]:
    """Yield the lines of a file of at most `limit` bytes, with their line ends; an overlong line comes in pieces."""
    with open_file(path, "rb", root) as file:
        _size(file, path, limit)
        while line := file.readline(_LONGEST_LINE):
            yield line


def _size(file: BinaryIO, path: Path, limit: int) -> int:
    size = os.fstat(file.fileno()).st_size
    if size > limit:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes; the limit is {limit:,}", str(path))
    return size


def write_bytes(path: Path, data: bytes, root: Path | None = None) -> None:
    """Write a file atomically."""
    with replacing(path, root) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, root: Path | None = None) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path` when the block ends; if the block raises, nothing changes."""
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
                flush(file.fileno(), root or path.parent)
            os.replace(fresh, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(fresh, dir_fd=folder)
            raise
        flush(folder, root or path.parent)


def create(path: Path, contents: Mapping[str, bytes], root: Path) -> None:
    """Create the folder `path`, which must not exist yet, with some files. Call `sync` for its parent."""
    with ExitStack() as stack:
        holding = stack.enter_context(_holding(path, root))
        with _naming(path):
            os.mkdir(path.name, dir_fd=holding)
        folder = stack.enter_context(_holding(path / "any", root))
        opened = [stack.enter_context(_open(name, "xb", folder)) for name in contents]
        # After all files are written, the first flush takes most of the data to the disk.
        for file, data in zip(opened, contents.values(), strict=True):
            file.write(data)
            file.flush()
        for file in opened:
            flush(file.fileno(), root)
        flush(folder, root)


def make_folder(path: Path, root: Path) -> None:
    """Create a folder and its parents; they may exist already. Call `sync` for its parent."""
    root.mkdir(parents=True, exist_ok=True)
    here = root
    for part in path.relative_to(root).parts:
        here /= part
        with _holding(here, root) as parent, _naming(here):
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=parent)
            os.close(os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=parent))


def names(path: Path, root: Path) -> list[str]:
    """Return the sorted names of a folder's entries; empty if there is no such folder."""
    try:
        with _holding(path / "any", root) as folder:
            return sorted(_names(folder))
    except FileNotFoundError:
        return []


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def rename(path: Path, new: Path, root: Path) -> None:
    """Rename a file or folder within its folder. Call `sync` for that folder after the last rename."""
    with _holding(path, root) as folder, _naming(path):
        try:
            os.rename(path.name, new.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy(path, new, folder, root)  # a folder in a lower layer of a container stays where it is
            remove(path, root)


def _copy(path: Path, new: Path, holding: int, root: Path) -> None:
    """Copy a folder of files under a new name, which it gets at the end."""
    fresh = path.with_name(leftover(new.name))
    contents = {}
    for name in names(path, root):
        with open_file(path / name, "rb", root) as file:
            contents[name] = file.read()
    create(fresh, contents, root)
    os.rename(fresh.name, new.name, src_dir_fd=holding, dst_dir_fd=holding)


def link(path: Path, root: Path, new: Path, new_root: Path) -> None:
    """Give a regular file a second name, in another folder; copy it where that cannot be. Call `sync` afterwards."""
    with _holding(path, root) as folder, _holding(new, new_root) as new_folder, _naming(path):
        _open(path.name, "rb", folder).close()  # a link or a pipe is refused
        try:
            os.link(path.name, new.name, src_dir_fd=folder, dst_dir_fd=new_folder, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            with _open(path.name, "rb", folder) as file, _open(new.name, "xb", new_folder) as copy:
                shutil.copyfileobj(file, copy)
                copy.flush()
                flush(copy.fileno(), new_root)


def sync(path: Path, root: Path) -> None:
    """Flush the entries of a folder to the disk."""
    with _holding(path / "any", root) as folder, _naming(path):
        flush(folder, root)


def remove(path: Path, root: Path) -> None:
    """Remove a file, a folder with its contents, or a link but not its target; a missing path is ignored."""
    with suppress(FileNotFoundError), _holding(path, root) as folder, _naming(path):
        if not stat.S_ISDIR(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(path.name, dir_fd=folder)
            return
        try:
            shutil.rmtree(path.name, dir_fd=folder)
        except RecursionError:
            raise OSError(errno.ELOOP, "its folders are nested too deeply") from None


def discard(path: Path, root: Path) -> bool:
    """Remove what is no longer needed; return False where all or a part of it is in use, and has to stay for now.

    A network file system keeps files that are open, under other names, and with them their folder.
    """
    try:
        remove(path, root)
    except OSError as error:
        if not is_in_use(error):
            raise
        return False
    return True


def leftover(name: str, ending: Literal["new", "old"] = "new") -> str:
    """Return a new hidden name for a file that will become `name` or was it; the next writer removes leftovers."""
    return f".{name}.{secrets.token_hex(4)}.{ending}"


def is_leftover(name: str, of: str) -> bool:
    """Return True for names made by `leftover(of)`."""
    return re.fullmatch(rf"\.{re.escape(of)}\.[0-9a-f]{{8}}\.(new|old)", name) is not None


@contextmanager
def _holding(path: Path, root: Path | None) -> Iterator[int]:
    """Open the parent folder of `path` as a descriptor, from `root` without following links."""
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
    """Return the parts of `path` below `root`."""
    depth = len(root.parts)
    inner = path.parts[depth:]
    if path.parts[:depth] != root.parts or ".." in inner or not inner:
        raise OSError(errno.EINVAL, f"it points outside of {root}", str(path))
    return inner[:-1]


def _open(name: str, mode: Mode, folder: int) -> BinaryIO:
    descriptor = os.open(name, _FLAGS[mode] | _SAFELY, 0o666, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return os.fdopen(descriptor, mode)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add to an error which path it is about, and whether that is a link."""
    try:
        yield
    except OSError as error:
        if error.errno is None or os.sep in os.fsdecode(error.filename or ""):
            raise  # it already names its path
        reason = error.strerror
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink():
            reason = "it is a link, and links are not followed here"
        elif error.errno == errno.ENXIO:
            reason = "it is not a regular file"
        raise OSError(error.errno, reason, str(path)) from None


class GuardedFolder:
    """A new folder, removed by `close`, or by another process some seconds after this one was killed.

    Args:
        prefix: how its name begins.
        within: the folder that it is made in; None: that for temporary files.
        patience: these seconds, in which processes that write there end, too.
    """

    def __init__(self, prefix: str, within: Path | None = None, patience: float = 10.0) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=within))
        self._guard = _guard_of(self.path, patience)

    def close(self) -> None:
        """Remove it; safe to call twice. Where something still writes there, the other process tries again later."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._guard is not None and not self.path.exists():
            self._guard.kill()
            self._guard.communicate()
            self._guard = None


def _guard_of(folder: Path, patience: float) -> subprocess.Popen[bytes] | None:
    """Return the process that removes a folder; None where there is no shell. Its input ends with this process."""
    shell = shutil.which("sh")
    if shell is None:
        return None
    script = f'read -r line; sleep {patience:g}; rm -rf -- "$0"'
    nowhere = subprocess.DEVNULL  # whoever reads the output of this process need not wait for the guard
    return subprocess.Popen(  # noqa: S603 — our own words
        [shell, "-c", script, str(folder)],
        stdin=subprocess.PIPE,
        stdout=nowhere,
        stderr=nowhere,
        start_new_session=True,
    )
