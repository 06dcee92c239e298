"""Executes one job of a sweep in its own process."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from maze_core import ConfigError, MazeError, RunError
from maze_core.base import files
from maze_core.base.local_modules import understand_local_modules
from maze_sweep.pool import JobEnd, SweepJob

if TYPE_CHECKING:
    from maze_core import RunSummary


def execute(job: SweepJob) -> JobEnd:
    """Train or resume the job's run to its end; never raises. Its output goes to the job's log.

    The process must do nothing else: output is redirected permanently, and signals are handled as in a run.
    """
    sys.path.extend(folder for folder in job.search_path if folder not in sys.path)
    understand_local_modules()
    try:
        _print_to(Path(job.log))
        summary = _train(job)
    except KeyboardInterrupt:
        return JobEnd(job.name, "interrupted", "interrupted immediately")
    except Exception as error:  # noqa: BLE001 — whatever ends one run must not end the sweep
        _explain(error)
        return JobEnd(job.name, "failed", str(error).partition("\n")[0] or type(error).__name__)
    return JobEnd(job.name, summary.outcome, summary.reason)


def _train(job: SweepJob) -> RunSummary:
    from maze_core.collect.policies.said_classes import said_classes
    from maze_core.plugins.config.assembly import Assembly
    from maze_core.run import api
    from maze_core.run.saved import saved_run
    from maze_core.run.saved.manifest import LAST, PREVIOUS, checkpoints
    from maze_core.run.saved.run_dir import lock
    from maze_sweep.forks import begin_fork

    run_dir, assembly = Path(job.run_dir), Assembly(said_classes(job.classes))
    if run_dir.is_symlink():
        raise ConfigError(f"{run_dir} is a link, which is not followed here")
    if any(name in checkpoints(run_dir) for name in (LAST, PREVIOUS)):
        return saved_run.resume(run_dir, assembly=assembly, agreed=job.config)
    if run_dir.exists():  # killed before its first checkpoint: nothing to resume
        old = run_dir.with_name(files.leftover(run_dir.name, "old"))
        with lock(run_dir):  # the open lock would keep the folder there on some file systems
            files.rename(run_dir, old, run_dir.parent)
        files.discard(old, old.parent)
    if job.fork_of is not None:
        begin_fork(run_dir, Path(job.fork_of), job.config, assembly)
        return saved_run.resume(run_dir, assembly=assembly, agreed=job.config)
    source = None if job.init_from is None else Path(job.init_from)
    return api.train(assembly.load_run_config(job.config), run_dir, source, preset=job.preset)


def _print_to(log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        file = files.open_file(log, "ab")
    except OSError as error:
        raise ConfigError(f"{log} cannot be written: {error.strerror}", hint="Next: delete it.") from None
    with file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(line_buffering=True)


def _explain(error: Exception) -> None:
    """Print an error as `maze train` would; an unexpected one with its traceback."""
    if not isinstance(error, MazeError) or (isinstance(error, RunError) and error.__cause__ is not None):
        traceback.print_exception(error)
    print("\n".join([f"error: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr, flush=True)
