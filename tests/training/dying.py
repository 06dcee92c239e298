"""A process that dies in the middle of writing, simulated: from one file operation on, nothing reaches the disk."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHANGES = ("rename", "replace", "unlink", "mkdir", "rmdir", "truncate", "ftruncate", "link", "symlink")


class Killed(BaseException):
    """As kill -9: whoever catches it finds that nothing can be done any more."""


class Disk:
    """Counts the operations that change files and dies before the `at`-th; a write dies when half of it is done."""

    def __init__(self, at: int | None) -> None:
        self.at, self.done, self.dead = at, 0, False

    def step(self) -> None:
        """Count an operation; raises where it, or one before it, killed the process."""
        if self.dead or self.done == self.at:
            self.dead = True
            raise Killed
        self.done += 1


@contextmanager
def dying(at: int | None) -> Iterator[Disk]:
    """Whatever the block does is killed before file operation `at`, from 0; None: nothing is, it only counts."""
    disk, original_open = Disk(at), os.open

    def counted(original: Any) -> Any:
        def operation(*args: Any, **kwargs: Any) -> Any:
            disk.step()
            return original(*args, **kwargs)

        return operation

    def opened(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & os.O_CREAT:
            disk.step()
        return original_open(path, flags, *args, **kwargs)

    class File(io.FileIO):
        def write(self, data: Any) -> int:
            alive = not disk.dead
            try:
                disk.step()
            except Killed:
                if alive:
                    super().write(bytes(data)[: len(data) // 2])
                raise
            return super().write(data)

    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            patch.setattr(os, name, counted(getattr(os, name)))
        patch.setattr(os, "open", opened)
        patch.setattr(os, "fsync", lambda _: None)  # a killed process loses nothing of it; only a machine does
        patch.setattr(os, "fdopen", lambda descriptor, mode: File(descriptor, mode))
        try:
            yield disk
        except Killed:
            disk.dead = True
