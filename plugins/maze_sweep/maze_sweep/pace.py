"""How far a sweep is, and how long the rest takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maze_sweep.sweep import Sweep
    from maze_sweep.trials import SweepRun, Trial

_COUNTERS = {"steps": "env_steps", "epochs": "epoch", "seconds": "seconds"}
_ENDED = ("finished", "failed", "killed", "pruned")


def share_done(sweep: Sweep) -> float:
    """Return the share of all runs that is done, in [0, 1]; running ones count by their steps or epochs.

    Where the searcher knows how far all of them train, runs that train further count more.
    """
    length = sweep.searcher.length()
    if length is None or sweep.whole is None:
        done = sum(_share(trial, run, sweep) for trial in sweep.trials for run in trial.runs)
        return done / max(1, sweep.total_runs)
    whole = max(length, sum(_length(trial, sweep) for trial in sweep.trials)) * len(sweep.plan.seeds)
    done = sum(_length(trial, sweep) * _share(trial, run, sweep) for trial in sweep.trials for run in trial.runs)
    return done / whole


class Pace:
    """Tells the time left from the share that was done since it was built: a sweep that goes on had done some before.

    Args:
        sweep: at its start.
        clock: returns seconds.
    """

    def __init__(self, sweep: Sweep, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began, self._before = clock(), share_done(sweep)

    def seconds_left(self, sweep: Sweep) -> float | None:
        """Return how long the rest takes at the pace so far; None while hardly anything is done."""
        share = share_done(sweep)
        since = share - self._before
        if since < 0.005:
            return None
        return (self._clock() - self._began) / since * (1 - share)


def words(seconds: float | None) -> str:
    """Return a time left as `about 1:05:00 left`; empty for None and 0."""
    if seconds is None or not 0 < seconds < 1e8:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"about {hours}:{minutes:02}:{rest:02} left" if hours else f"about {minutes}:{rest:02} left"


def _share(trial: Trial, run: SweepRun, sweep: Sweep) -> float:
    if run.state in _ENDED:
        return 1.0
    config = trial.config
    if run.state != "running" or not run.epochs or config is None:
        return 0.0
    if trial.until is not None and sweep.whole is not None:
        done = run.count(_COUNTERS[sweep.whole.unit]) - _began(trial, sweep)
        return min(1.0, max(0.0, done / max(1e-9, _length(trial, sweep))))
    ends = (("env_steps", config.steps), ("epoch", getattr(config.algorithm, "n_epochs", None)))
    return min(1.0, max((run.count(name) / end for name, end in ends if end), default=0.0))


def _length(trial: Trial, sweep: Sweep) -> float:
    """Return how far a trial's runs train, in the unit of the budgets."""
    end = sweep.whole.amount if trial.until is None and sweep.whole is not None else trial.until or 0.0
    return end - _began(trial, sweep)


def _began(trial: Trial, sweep: Sweep) -> float:
    return 0.0 if trial.parent is None else sweep.trials[trial.parent].until or 0.0
