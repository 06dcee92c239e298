"""What checks share: what takes long is made once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from maze_devkit.findings import NotApplicable
from maze_devkit.fresh import Fresh
from maze_devkit.process import restored

if TYPE_CHECKING:
    from maze_core.plugins.discovery import Declaration
    from maze_devkit.findings import Check
    from maze_devkit.subject import Share, Subject, Trial

T = TypeVar("T")


class _Hung:
    """Stands for a result that never came."""


class Bench:
    """Shared among the checks of a plugin: its server, new processes, and results. Close it after the last check.

    Plugins may take their turns on it. Those that start the same server one after the other share it.

    Args:
        fresh: new processes that others share too, and close; None: its own.
        ends_process: end this process where a check hangs and cannot be interrupted.
    """

    def __init__(self, fresh: Fresh | None = None, ends_process: bool = False) -> None:
        self.fresh = fresh or Fresh()
        self.ends_process = ends_process
        self.hangs = False
        """True once a check of the plugin did not end in time: those that follow get a tenth of theirs."""
        self._own_fresh = fresh is None
        self._start: Share | None = None
        self._started = ExitStack()
        self._plugin: Declaration | None = None
        self._results: dict[Callable[[Subject], Any], Any] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def once(self, subject: Subject, make: Callable[[Subject], T]) -> T:
        """Return `make(subject)`, called for the first check that asks; the subject's folder then lasts as long.

        An error is not kept: the next check that asks meets it again.
        """
        if subject.claim != self._plugin:
            self._forget()
            self._plugin = subject.claim
        if isinstance(self._results.get(make), _Hung):
            raise NotApplicable("it does not end, see the first check that says so")
        if make not in self._results:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="maze-bench-", ignore_cleanup_errors=True)
            folder = Path(tempfile.mkdtemp(dir=self._folder.name))
            self._results[make] = make(replace(subject, folder=folder))
        result: T = self._results[make]
        return result

    def give_up(self, make: Callable[[Subject], Any]) -> None:
        """Do not call `make` again for this plugin: it did not end in time."""
        self._results[make] = _Hung()

    def prepare(self, check: Check, trial: Trial) -> None:
        """Start the plugin's server, if it has one, the check needs it, and it is not running yet."""
        from maze_devkit import general

        if check.alone:
            self._end_server()
        elif check not in general.CHECKS and trial.shared != self._start:
            self._end_server()
            if trial.shared is not None:
                self._started.enter_context(restored())
                self._started.enter_context(trial.shared())
            self._start = trial.shared

    def close(self) -> None:
        """End all of it; safe to call twice."""
        try:
            self._end_server()
        finally:
            self._forget()
            if self._own_fresh:
                self.fresh.close()

    def _end_server(self) -> None:
        self._start = None
        self._started.close()

    def _forget(self) -> None:
        """Drop the results of the last plugin."""
        self._results.clear()
        self.hangs = False
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()
