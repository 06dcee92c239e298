"""Callbacks that decide about a run: its best checkpoint, and its early end."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import NonNegativeInt

from maze_core.base.errors import ConfigError
from maze_core.base.metrics import VIOLATION, metric_named
from maze_core.base.terminal_text import counted
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
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


class EarlyStoppingConfig(PluginConfig):
    """When to stop."""

    patience: NonNegativeInt = 15
    """Epochs without a new best evaluation before the run stops; 0: never. An algorithm may have another default. If
    you set `steps` or `algorithm.n_epochs` but not `patience`, it is 0. `maze train` has the flag `--patience`."""
    target_return: float | None = None
    """Mean evaluation return at which the run stops, or value of `score.metric` where one is named; none: no target."""


class EarlyStopping(Plugin):
    """Stop after `patience` epochs without a new best evaluation, or at `target_return`.

    It keeps no state of its own, so a resumed run stops where the uninterrupted one would have.
    """

    Config: ClassVar[type[PluginConfig]] = EarlyStoppingConfig
    config: EarlyStoppingConfig

    @hookimpl
    def on_run_start(self, run: Run) -> None:
        """Refuse a target that nothing could reach."""
        if self.config.target_return is not None and not run.config.evaluation_episodes:
            where = "callbacks.early_stopping.target_return"
            raise ConfigError("no evaluation can reach it, for evaluation.n_episodes is 0", where)

    @hookimpl
    def on_epoch_end(self, run: Run, epoch: EpochReport) -> None:
        """Ask the run to stop if there is a reason."""
        reason = self._target_reached(run, epoch) or self._patience_lost(run, epoch)
        if reason:
            run.stop(reason)

    def _target_reached(self, run: Run, epoch: EpochReport) -> str | None:
        target, asked = self.config.target_return, run.config.score
        score = metric_named(epoch.metrics, "eval/return_mean" if asked is None else asked.metric)
        # A score of nan compares false: no evaluation has reached the target.
        if target is None or score is None or epoch.metrics.get(VIOLATION):
            return None
        if not (score >= target if asked is None or asked.maximize else score <= target):
            return None
        what = "the evaluation return" if asked is None else asked.metric
        return f"{what} {score:.6g} reached the target of {target:.6g}"

    def _patience_lost(self, run: Run, epoch: EpochReport) -> str | None:
        patience = 0 if run.full_length else self.config.patience
        # Before the first finite evaluation there is no improvement: patience counts from the start of the run.
        improved_epoch = run.state.improved_epoch or 0
        if patience == 0 or epoch.epoch - improved_epoch < patience:
            return None
        if not improved_epoch:
            return f"{counted(epoch.epoch, 'epoch')} without an evaluation to compare (patience is {patience})"
        since = counted(epoch.epoch - improved_epoch, "epoch")
        return f"{since} without a new best evaluation after epoch {improved_epoch} (patience is {patience})"
