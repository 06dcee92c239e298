"""Every change of the files below a folder, counted; a process dies right before the one it is told to."""

from __future__ import annotations

import builtins
import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PAGE = 4096
_ONE_PATH = {"os.remove": 1, "os.rmdir": 1, "os.mkdir": 2, "os.symlink": 2}
"""Where in an audit event's arguments the folder's descriptor stands."""


class Operations:
    """Counts operations in this process, which must be a child: the hooks stay for good.

    Counted are opening to write, each write that reaches the kernel, renaming, linking, removing, truncating, flushing
    to the disk, and making and removing folders. Nothing is counted outside `root`.
    """

    def __init__(self, root: Path, journal: Path, kill_at: int | None = None, torn: bool = False) -> None:
        """`journal`, outside `root`, gets a line for each operation before it happens.

        `kill_at`: number of the operation, from 1, before which the process is killed. Where that is a write and
        `torn`, half of it is written first, in whole pages: the kernel tears no page for a signal.
        """
        self._root, self._kill_at, self._torn = str(root.resolve()) + os.sep, kill_at, torn
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._write, self._count = os.write, 0
        self._folder = -1
        """What `os.open` is given beside the path, which its audit event leaves out."""

    def watch(self) -> None:
        """Begin."""
        sys.addaudithook(self._heard)
        for name in ("fsync", "fdatasync"):
            setattr(os, name, self._flushing(name, getattr(os, name)))
        os.write = self._writing  # type: ignore[assignment]
        os.open = self._opening(os.open)
        io.open = builtins.open = self._open  # type: ignore[assignment]

    def happens(self, what: str, path: str, tear: Callable[[], Any] | None = None) -> None:
        """Note an operation; if it is the one, this process does not live to see it."""
        if not path.startswith(self._root):
            return
        self._count += 1
        self._write(self._journal, f"{what} {path.removeprefix(self._root)!r}\n".encode())
        if self._count == self._kill_at:
            if self._torn and tear is not None:
                tear()
            os.kill(os.getpid(), signal.SIGKILL)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if flags & _WRITING and not isinstance(path, int):
                self.happens("open", _absolute(path, self._folder))
        elif event in ("os.rename", "os.link"):
            source, target, _, folder = arguments
            self.happens(f"{event} {Path(os.fsdecode(source)).name} to", _absolute(target, folder))
        elif event in _ONE_PATH:
            path = arguments[1] if event == "os.symlink" else arguments[0]
            self.happens(event, _absolute(path, arguments[_ONE_PATH[event]]))
        elif event == "os.truncate":
            self.happens(event, _absolute(arguments[0]))

    def _flushing(self, name: str, original: Callable[[int], None]) -> Callable[[Any], None]:
        def flush(file: Any) -> None:
            self.happens(name, _of(file if isinstance(file, int) else file.fileno()))
            original(file)

        return flush

    def _writing(self, number: int, data: Any) -> int:
        self.happens("write", _of(number), lambda: self._write(number, memoryview(data).cast("B")[: _torn(len(data))]))
        return self._write(number, data)

    def _opening(self, original: Callable[..., int]) -> Callable[..., int]:
        def opening(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            self._folder = -1 if dir_fd is None else dir_fd
            try:
                return original(path, flags, mode, dir_fd=dir_fd)
            finally:
                self._folder = -1

        return opening

    def _open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        """As `open`; what reaches the kernel is counted."""
        if not set(mode) & set("wxa+"):
            return _ORIGINAL_OPEN(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = _Counted(file, mode.translate({ord("b"): None, ord("t"): None}), closefd, opener, self)
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
        buffered = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw, size)
        if "b" in mode:
            return buffered
        text = io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)
        text.mode = mode  # type: ignore[misc]
        return text


_ORIGINAL_OPEN = io.open


class _Counted(io.FileIO):
    def __init__(self, file: Any, mode: str, closefd: bool, opener: Any, operations: Operations) -> None:
        self._operations = operations
        super().__init__(file, mode, closefd, opener)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        tear = lambda: io.FileIO.write(self, view[: _torn(len(view))])  # noqa: E731
        self._operations.happens("write", _of(self.fileno()), tear)
        return super().write(view)

    def truncate(self, size: int | None = None) -> int:
        self._operations.happens("truncate", _of(self.fileno()))
        return super().truncate(size)


def _torn(size: int) -> int:
    return size // 2 // _PAGE * _PAGE


def _of(number: int) -> str:
    """The path of an open file."""
    return str(Path(f"/proc/self/fd/{number}").readlink())


def _absolute(path: Any, folder: int = -1) -> str:
    if isinstance(path, int):
        return _of(path)
    return str((Path.cwd() if folder < 0 else Path(_of(folder))) / os.fsdecode(path))
