"""Budgets: how far a run trains before it pauses, in steps, epochs or seconds since the beginning of its line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import PositiveInt

from maze_core import ConfigError, Plugin, PluginConfig, hookimpl
from maze_core.plugins.config.params import Duration
from maze_sweep.searchers.base import Unit, Whole

if TYPE_CHECKING:
    from maze_core import EpochReport, Run, RunConfig

CALLBACK = "budget"
"""The callback's name, and its key in the configurations of runs."""
ENDS: dict[Unit, str] = {"steps": "steps", "epochs": "algorithm.n_epochs", "seconds": "max_time"}
"""The setting that says how far a run trains in all, by its unit."""


def whole_of(config: RunConfig) -> Whole | None:
    """Return how far the runs of a configuration train, by `steps`, else by epochs, else by time; None: it is open."""
    ends: dict[Unit, float | None] = {
        "steps": config.steps,
        "epochs": config.algorithm.n_epochs,
        "seconds": config.max_time,
    }
    return next((Whole(float(end), unit) for unit, end in ends.items() if end), None)


def setting(until: float | None, whole: Whole | None) -> dict[str, Any]:
    """Return the setting by path that lets a run pause at a budget; nothing where there is none."""
    if until is None or whole is None:
        return {}
    return {f"callbacks.{CALLBACK}": {"name": CALLBACK, whole.unit: until if whole.unit == "seconds" else int(until)}}


class BudgetConfig(PluginConfig):
    """Where a run pauses. At least one of them is set."""

    steps: PositiveInt | None = None
    """Environment steps since the beginning, also those before a fork."""
    epochs: PositiveInt | None = None
    """Epochs since the beginning, likewise."""
    seconds: Duration | None = None
    """Seconds of training since the beginning, likewise, or a time such as `20m`."""


class Budget(Plugin):
    """Pause a run short of its end, with a last evaluation and everything saved: schedules see the end of the run.

    A fork with another budget, or `maze resume RUN --set callbacks.budget=null`, goes on as if it had not paused. The
    update in progress is finished first, for a budget of epochs the epoch.
    """

    Config: ClassVar[type[PluginConfig]] = BudgetConfig
    config: BudgetConfig

    @hookimpl
    def on_run_start(self, run: Run) -> None:
        """Look after each update."""
        if self.config.steps is self.config.epochs is self.config.seconds is None:
            raise ConfigError("says nothing", f"callbacks.{CALLBACK}", "Next: steps, epochs or seconds.")
        run.pause_when = lambda: self.spent(run)

    @hookimpl
    def on_epoch_end(self, run: Run, epoch: EpochReport) -> None:
        """Look when the epoch is counted."""
        if reason := self.spent(run):
            run.pause(reason)

    def spent(self, run: Run) -> str | None:
        """Return in one sentence that the budget is spent; None if it is not."""
        config = self.config
        if config.steps is not None and run.env_steps >= config.steps:
            return f"its budget of {config.steps:,} steps is spent"
        if config.epochs is not None and run.epoch >= config.epochs:
            return f"its budget of {config.epochs:,} epochs is spent"
        if config.seconds is not None and run.seconds >= config.seconds:
            return f"its budget of {config.seconds:g} seconds is spent"
        return None
