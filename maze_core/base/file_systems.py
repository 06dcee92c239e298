"""What file systems of others cannot do: network disks, disks of clusters, layers of containers.

There a lock, a flush or a removal may fail though nothing is lost. That is left undone, with a line. A disk that is
full, broken or read-only is no such case: its errors are raised. And where they keep what can be made again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sys
from functools import cache
from pathlib import Path

from maze_core.base.tolerant_output import to_stderr

_UNABLE = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY, errno.EBADF, errno.EPERM}
"""Why a file system does not do at all what it is asked for."""
_NO_FLUSH = _UNABLE | {errno.EACCES, errno.EISDIR}
_NO_LOCKS = _UNABLE | {errno.ENOLCK}
_LOCKED = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_IN_USE = {errno.EBUSY, errno.ENOTEMPTY, errno.EEXIST, errno.EACCES, errno.EPERM, errno.ETXTBSY, errno.ESTALE}


@cache
def say_once(line: str) -> None:
    """Print a line on the error output the first time."""
    to_stderr(line)


def flush(descriptor: int, place: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk. `place`: below which folder, for a line that says once
    that this file system cannot.
    """
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FLUSH:
            raise
        say_once(
            f"note: the file system of {place} does not flush everything to the disk ({error.strerror}): if the "
            "machine loses power, the newest files may be missing; all else is safe"
        )


def take_lock(descriptor: int, *, shared: bool = False, wait: bool = False) -> bool | None:
    """Lock an open file or folder for this process until it is closed; return True if it is locked.

    False: another process has locked it. None: this file system has no locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno in _LOCKED:
            return False
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True


def free_bytes(folder: Path) -> int | None:
    """Return the bytes that are free on the disk of a folder; None: it does not say."""
    try:
        found = shutil.disk_usage(folder)
    except OSError:
        return None
    return found.free if found.total else None  # without a size: as much as there is memory, or unknown


def is_in_use(error: OSError) -> bool:
    """Return True where something cannot be moved or removed as long as a process, here or elsewhere, uses it."""
    return error.errno in _IN_USE


def cache_folder() -> Path | None:
    """Return the folder `maze` for what may be deleted at any time; None for a user without a home folder.

    It is in `$XDG_CACHE_HOME` on every system, if that is set to a path from the root, else where the system has it.
    """
    default = {"darwin": "~/Library/Caches", "win32": os.environ.get("LOCALAPPDATA", "~/AppData/Local")}
    named = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return Path(named if named.startswith("/") else default.get(sys.platform, "~/.cache")).expanduser() / "maze"
    except RuntimeError:
        return None
