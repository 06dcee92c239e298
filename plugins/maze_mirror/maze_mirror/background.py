"""A thread that works on the newest of what it is given, while its owner goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable

from maze_mirror.snapshot import Snapshot


class Background:
    """Calls `work` with snapshots, one after the other, in a thread that lives while there are any.

    A snapshot that is still waiting when the next one comes is dropped. `work` must not raise; it closes its snapshot.
    """

    def __init__(self, work: Callable[[Snapshot], None]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._waiting: Snapshot | None = None
        self._thread: threading.Thread | None = None

    def give(self, snapshot: Snapshot) -> None:
        """Work on a snapshot as soon as the one before is done."""
        with self._lock:
            dropped, self._waiting = self._waiting, snapshot
            if self._thread is None:
                # A program that ends does not wait for it.
                self._thread = threading.Thread(target=self._run, name="maze-mirror", daemon=True)
                self._thread.start()
        if dropped is not None:
            dropped.close()

    def finish(self) -> None:
        """Drop the snapshot that is waiting, and wait until the thread has ended."""
        with self._lock:
            dropped, self._waiting = self._waiting, None
            thread = self._thread
        if dropped is not None:
            dropped.close()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                snapshot, self._waiting = self._waiting, None
                if snapshot is None:
                    self._thread = None
                    return
            self._work(snapshot)
