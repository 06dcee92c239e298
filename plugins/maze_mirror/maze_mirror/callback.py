"""Copies a run to shared storage while it trains."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import NonNegativeFloat, field_validator

from maze_core import ConfigError, Plugin, PluginConfig, hookimpl
from maze_core.cli import output
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.record import encoded_record, read_record
from maze_mirror.address import checked, masked, reason
from maze_mirror.background import Background
from maze_mirror.copier import Copier, SupersededError
from maze_mirror.snapshot import Snapshot
from maze_mirror.store import Store, check_installed

if TYPE_CHECKING:
    from collections.abc import Callable

    from maze_core import Run, RunSummary

_LAST, _RUN = "last", "{run}"
_AGAIN = "; it is tried again after the next checkpoint"
_PAUSES = (0.0, 1.0, 5.0)
"""Seconds before each attempt to copy a run that has ended."""


class MirrorConfig(PluginConfig):
    """Where the run is copied to, and when."""

    to: Annotated[str, Outside.ADDRESS]
    """Address of a folder for this run alone, such as `s3://bucket/runs/first`. `{run}` stands for the name of the run
    directory. Any file system of fsspec that is installed will do. Credentials come from environment variables only."""
    minutes: NonNegativeFloat = 0.0
    """Minutes between two copies at least; 0: a copy after every checkpoint."""
    background: bool = True
    """Copy while training goes on, and skip checkpoints for which there is no time; false: training waits for each."""

    @field_validator("to")
    @classmethod
    def _check_address(cls, value: str) -> str:
        return checked(value)


class Mirror(Plugin):
    """Copy the run directory to an address after every checkpoint and at the run's end, for `maze fetch`.

    Only what has changed is sent. Whenever the process dies, the copy is that of one moment, and whole. A copy that
    fails is reported, and repeated after the next checkpoint. Without a run directory it does nothing.
    """

    Config: ClassVar[type[PluginConfig]] = MirrorConfig
    config: MirrorConfig

    def __init__(self, config: MirrorConfig) -> None:
        super().__init__(config)
        check_installed(config.to, "to")
        self._to = config.to
        self._copier: Copier | None = None
        self._background = Background(self._copy)
        self._due = 0.0
        self._problem = ""
        """Why the newest attempt failed; empty if it did not."""
        self._told = ""
        """The problem that was reported last; empty once all is well again."""
        self._superseded = False

    @hookimpl
    def on_run_start(self, run: Run) -> None:
        """Claim the address, and begin with the first copy.

        Raises:
            ConfigError: it cannot be written, or holds another run.
        """
        self._copier = None
        if run.run_dir is None:
            return
        self._problem, self._told, self._superseded, self._due = "", "", False, 0.0
        self._to = self.config.to.replace(_RUN, run.run_dir.name)
        copier = Copier(self._connected(), run.run_dir)
        try:
            copier.claim()
        except ConfigError:
            raise
        except Exception as error:  # noqa: BLE001 — as below
            raise self._unusable(error) from None
        self._copier = copier
        self._offer(copier, run.run_dir, run.epoch)

    def _connected(self) -> Store:
        try:
            return Store(self._to)
        except Exception as error:  # noqa: BLE001 — a file system may raise anything
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> ConfigError:
        problem = f"{masked(self._to)} cannot be written: {reason(error)}"
        hint = "Next: check the address and the credentials in the environment, or name another address."
        return ConfigError(problem, "to", hint)

    @hookimpl
    def on_checkpoint(self, run: Run, path: Path) -> None:
        """Copy the run with the new checkpoint. `last` follows every other one, so only that counts."""
        if self._copier is not None and run.run_dir is not None and path.name == _LAST:
            self._report()
            if time.monotonic() >= self._due:
                self._offer(self._copier, run.run_dir, run.epoch)

    @hookimpl
    def on_run_end(self, run: Run, summary: RunSummary) -> None:
        """Wait for the copy of the run as it has ended; where it fails, try again a few times."""
        copier, run_dir = self._copier, run.run_dir
        if copier is None or run_dir is None:
            return
        try:
            self._background.finish()
            for pause in _PAUSES:
                time.sleep(pause)
                self._try(copier, run_dir, run.epoch, self._copy, summary)
                if not self._problem or self._superseded:
                    break
            self._report()
            if self._problem and not self._superseded:
                held = "no copy of the run" if copier.epoch is None else f"the run as of epoch {copier.epoch}"
                output.warn(f"warning: {masked(self._to)} holds {held}; the whole run is in {run_dir}")
        finally:
            self._copier = None

    def _offer(self, copier: Copier, run_dir: Path, epoch: int) -> None:
        """Copy the run as it is now, or let the thread do it."""
        self._due = time.monotonic() + 60 * self.config.minutes
        self._try(copier, run_dir, epoch, self._background.give if self.config.background else self._copy)
        if not self.config.background:
            self._report()

    def _try(
        self,
        copier: Copier,
        run_dir: Path,
        epoch: int,
        work: Callable[[Snapshot], None],
        summary: RunSummary | None = None,
    ) -> None:
        """Give a snapshot of the run to `work`, which closes it. It says how the run ended, if there is a summary."""
        if self._superseded:
            return
        try:
            record = None if summary is None else _ended(run_dir, summary)
            snapshot = Snapshot(run_dir, epoch, copier.known, record)
        except ConfigError as error:
            self._problem = str(error)
        except OSError as error:
            self._problem = f"{error.filename}: {reason(error)}{_AGAIN}"
        else:
            work(snapshot)

    def _copy(self, snapshot: Snapshot) -> None:
        """Copy a snapshot and close it; note why if that fails."""
        copier = self._copier
        try:
            if copier is not None and not self._superseded:
                copier.copy(snapshot)
                self._problem = ""
        except SupersededError:
            self._superseded = True
            self._problem = "another process has continued this run and its copy; nothing more is copied from here"
        except Exception as error:  # noqa: BLE001 — a file system may raise anything, and the run goes on
            self._problem = f"{reason(error)}{_AGAIN}"
        finally:
            snapshot.close()

    def _report(self) -> None:
        """Tell a new problem, or that there is none any more; only the thread that trains writes to the terminal."""
        problem = self._problem
        if problem and problem != self._told:
            output.warn(f"warning: the run could not be copied to {masked(self._to)}: {problem}")
        elif self._told and not problem:
            output.warn(f"the run is copied to {masked(self._to)} again")
        self._told = problem


def _ended(run_dir: Path, summary: RunSummary) -> bytes:
    """Return the contents of `run.json` with the summary, which is written there when all observers know the end."""
    return encoded_record({**read_record(run_dir), "summary": asdict(summary)})
