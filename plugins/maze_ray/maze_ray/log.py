"""What Ray says of a run, kept in a file of the run instead of between the lines of the console."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from maze_core.base import files

LOG, _ERRORS = "ray.log", 2
_MOST = 1_000_000
"""Most characters of one process: a cluster in trouble repeats itself."""
_ENOUGH = f"Ray said more than {_MOST:,} characters; the rest is left out\n"


class RayLog:
    """Takes what Ray says, from any thread; until there is a file, it waits in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._folder: Path | None = None
        self._room = _MOST
        self._last = ""

    def add(self, text: str) -> None:
        """Add a message, with the time, unless it is the one before once more."""
        with self._lock:
            if self._room <= 0 or text == self._last:
                return
            self._last = text
            text = f"{datetime.now().isoformat(' ', 'seconds')} {text.rstrip()}\n"
            self._room -= len(text)
            self._waiting.append(text if self._room > 0 else _ENOUGH)
            self._write()

    def keep_in(self, folder: Path) -> None:
        """Write to the file in a run directory from now on, and first what waits."""
        with self._lock:
            self._folder = folder
            self._write()

    def _write(self) -> None:
        if self._folder is None or not self._waiting:
            return
        with suppress(OSError), files.open_file(self._folder / LOG, "ab", self._folder) as file:
            file.write("".join(self._waiting).encode(errors="replace"))
        self._waiting.clear()


@contextmanager
def error_output_kept(log: RayLog) -> Iterator[None]:
    """Let what libraries write to the error output inside the block, which Python knows nothing of, go to the log."""
    try:
        before = os.dup(_ERRORS)
    except OSError:  # it is closed
        yield
        return
    with TemporaryFile() as file:
        os.dup2(file.fileno(), _ERRORS)
        try:
            yield
        finally:
            os.dup2(before, _ERRORS)
            os.close(before)
            file.seek(0)
            if text := file.read().decode(errors="replace").strip():
                log.add(text)


class _Handler(logging.Handler):
    def __init__(self, log: RayLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.add(f"{record.levelname.lower()}: {record.getMessage()}")


@contextmanager
def kept_in(log: RayLog, ray: Any) -> Iterator[None]:
    """Let Ray print nothing, such as pages of a lost node's log: the pool tells of what concerns the run."""
    worker, logger = ray._private.worker, logging.getLogger("ray")
    printing, handlers, level = worker.print_to_stdstream, logger.handlers[:], logger.level

    def take(data: dict[str, Any], ignore_prefix: bool = False) -> None:
        log.add(f"({data.get('pid')}) " + "\n".join(map(str, data.get("lines", ()))))

    worker.print_to_stdstream = take
    logger.handlers[:] = [_Handler(log)]
    try:
        yield
    finally:
        worker.print_to_stdstream = printing
        logger.handlers[:] = handlers
        logger.setLevel(level)
