"""Runs on machines that have no disk in common with the sweep: each copies itself, and the sweep fetches the copies.

The callback `mirror` copies a run to an address while it trains. With `{run}` in the address, which stands for the
name of the run, a sweep has one for each: what a machine needs is fetched from there, and so is what the sweep needs.
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from maze_core import ConfigError, MazeError
from maze_core.base import files
from maze_core.base.files import GuardedFolder
from maze_core.run.saved.append_only import METRICS_FILE
from maze_sweep.execute import execute

if TYPE_CHECKING:
    from maze_sweep.pool import JobEnd, SweepJob

RUN = "{run}"
_LOG_BYTES = 1_000_000
"""Most bytes of a run's output that are sent to the sweep: its end."""


def copy_of(job: SweepJob) -> str | None:
    """Return the address of the copy of a job's run; None if its configuration names no address for each run."""
    mirror = (job.config.get("callbacks") or {}).get("mirror") or {}
    to = mirror.get("to")
    return to.replace(RUN, job.name) if isinstance(to, str) and RUN in to else None


def check_source(job: SweepJob) -> None:
    """Raise ConfigError if a job takes the weights of a run that has no copy where it will run."""
    if job.init_from is not None:
        raise ConfigError(
            f"{job.init_from} is not on the machines that run the sweep, which have no disk in common",
            "--init-from",
            f"Next: name a sweep folder on a disk that they share, and leave {RUN} out of callbacks.mirror.to",
        )


def execute_away(job: SweepJob) -> tuple[JobEnd, bytes]:
    """Train or resume a job's run in a temporary folder of this machine. Return its end, and the end of its output.

    The process must do nothing else, as for `execute`.
    """
    with closing(GuardedFolder("maze-sweep-")) as folder:
        root = folder.path
        mine = replace(job, run_dir=str(root / job.name), log=str(root / f"{job.name}.log"))
        with suppress(ConfigError):  # there is no copy yet
            _fetch(copy_of(job), root / job.name)
        if job.fork_of is not None and not (root / job.name).exists():
            source = replace(job, name=Path(job.fork_of).name)
            _fetch(copy_of(source), root / source.name)
            mine = replace(mine, fork_of=str(root / source.name))
        end = execute(mine)
        os.chdir("/")  # the folder is about to be removed
        output = b""
        with suppress(OSError):
            output = Path(mine.log).read_bytes()[-_LOG_BYTES:]
        return end, output


def bring_metrics(job: SweepJob) -> None:
    """Write the metrics of a run that is under way into its folder, if there is a copy."""
    from maze_mirror.fetching import read_file

    with suppress(MazeError, OSError):
        content = read_file(str(copy_of(job)), METRICS_FILE)
        folder = Path(job.run_dir)
        files.make_folder(folder, folder.parent)
        files.write_bytes(folder / METRICS_FILE, content)


def bring_run(job: SweepJob, output: bytes) -> None:
    """Put the copy of a run that has ended in its folder, and its output in its log.

    Raises:
        MazeError, OSError: the copy cannot be read, or the folder cannot be written.
    """
    run_dir = Path(job.run_dir)
    Path(job.log).parent.mkdir(parents=True, exist_ok=True)
    with files.open_file(Path(job.log), "ab") as log:
        log.write(output)
    fresh = run_dir.with_name(files.leftover(run_dir.name))
    try:
        _fetch(copy_of(job), fresh)
        if run_dir.exists():
            old = run_dir.with_name(files.leftover(run_dir.name, "old"))
            files.rename(run_dir, old, run_dir.parent)
            files.discard(old, run_dir.parent)
        fresh.rename(run_dir)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _fetch(address: str | None, folder: Path) -> None:
    from maze_mirror.fetching import fetch_run

    if address is None:
        raise ConfigError(f"callbacks.mirror.to names no address with {RUN}")
    fetch_run(address, folder)
