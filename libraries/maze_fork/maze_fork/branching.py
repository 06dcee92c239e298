"""Opens and trains the fork of a saved run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from maze_core.collect.policies.said_classes import said_classes
from maze_core.plugins.config.assembly import INSTALLED, Assembly
from maze_core.plugins.config.record import CONFIG
from maze_core.run.api import to_its_end
from maze_core.run.report import RunSummary
from maze_core.run.run import Run
from maze_core.run.saved.found_run import find_run
from maze_core.run.saved.run_dir import remove_run_dir
from maze_core.run.saved.saved_run import check_end, reopen
from maze_fork.directory import fork_directory

if TYPE_CHECKING:
    from maze_core.plugins.config.raw import Raw


def fork(
    parent: Path, overrides: Sequence[str] = (), checkpoint: str = "last", run_dir: Path | None = None
) -> RunSummary:
    """Train a new run that begins where a saved one was, see `to_its_end`. Arguments and errors as for `branch`."""
    with closing(branch(parent, overrides, checkpoint, run_dir=run_dir)) as run:
        return to_its_end(run)


def branch(
    parent: Path,
    overrides: Sequence[str] = (),
    checkpoint: str = "last",
    *,
    run_dir: Path | None = None,
    assembly: Assembly = INSTALLED,
    agreed: Raw | None = None,
) -> Run:
    """Open a new run with the exact state of a checkpoint of another one. Close the run when done with it.

    Args:
        parent: the run directory that it begins from, which stays as it is.
        overrides: as for `reopen`: what cannot change in a resumed run cannot change here.
        checkpoint: last, previous or best.
        run_dir: the new run's own folder, new or empty; None: beside that of the parent.
        assembly: makes the configuration.
        agreed: as for `reopen`.

    Raises:
        ConfigError: as for `reopen`, also where nothing would be left to train; no folder is left.
        CheckpointError: as for `reopen`.
    """
    named = find_run(parent)
    Assembly(said_classes((), overrides, assembly.load)).load_saved_config(named / CONFIG, overrides, agreed)
    with ExitStack() as undo:
        child = fork_directory(named, run_dir, checkpoint)
        undo.callback(remove_run_dir, child)
        run = reopen(child, overrides, assembly=assembly, agreed=agreed, named=named)
        undo.callback(run.close)
        run.forked_from = named
        check_end(run, parent, "fork")
        undo.pop_all()
    return run
