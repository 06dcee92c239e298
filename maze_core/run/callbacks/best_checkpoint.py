"""Saves the best policy of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from maze_core.run.report import EpochReport
    from maze_core.run.run import Run


class BestCheckpoint(Plugin):
    """Write the checkpoint `best` whenever no evaluation before was better; of equals the newest is kept.

    Without a run directory it does nothing.
    """

    @hookimpl
    def on_epoch_end(self, run: Run, epoch: EpochReport) -> None:
        """Save the parameters that were evaluated: nothing is learnt between evaluation and this call."""
        if (epoch.is_best or epoch.ties_best) and run.run_dir is not None:
            run.save_checkpoint("best")

    @hookimpl
    def on_evaluation(self, run: Run, epoch: EpochReport) -> None:
        """Do the same after an evaluation within an epoch."""
        self.on_epoch_end(run, epoch)
