"""How far a run is, and what ends it; the counters that a checkpoint saves, and those that displays show."""

from __future__ import annotations

import math
import operator
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from maze_core.base.errors import PluginError
from maze_core.base.interruption import Preemption
from maze_core.base.saved_state import Bool, Count, Entries, Form, Number, OrNone, Text, varies
from maze_core.base.terminal_text import shown
from maze_core.run.episodes.statistics import EpochStatistics

if TYPE_CHECKING:
    from maze_core.plugins.config.run import RunConfig


def whole(value: Any, least: int, what: str) -> int:
    """Return a whole number of at least `least` as an int.

    Raises:
        PluginError: it is another value; `what` says whose.
    """
    with suppress(TypeError):
        number = operator.index(value)
        if number >= least:
            return int(number)
    raise PluginError(f"{what} must be a whole number of at least {least}, got {shown(value)}")


class RunProgress(ABC):
    """The counters of a run, its clock, and its end."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.state = RunState()
        """What a checkpoint saves of the run's progress."""
        self.progress = LiveProgress()
        self.statistics = EpochStatistics()
        """The episodes and values of the unfinished epoch; algorithms add those that they play."""
        self.until_epoch: int | None = config.algorithm.n_epochs or None
        self.full_length = False
        """True while training goes to the number of epochs that the caller asked for, whatever the default patience."""
        self.stop_reason: str | None = None
        self.stop_pending: str | None = None
        """Why the run had stopped at the checkpoint it was resumed from; training then ends at once for this reason."""
        self.interrupted = False
        self.terminated = False
        """True after SIGTERM: nothing is evaluated any more."""
        self.preemption = Preemption()
        """When the update in progress must be given up, while the run trains."""
        self.in_python = False
        """True for a run of the Python API: what it is told to do next are calls, not commands."""
        self.paused = False
        """True once training was asked to end here, by `max_time` or by `pause`, for a resumed run to go on."""
        self.pause_when: Callable[[], str | None] | None = None
        """Asked between updates: why the run pauses here, or None. A callback sets it in `on_run_start`."""
        self._started_at: float | None = None

    @property
    @abstractmethod
    def epoch_length(self) -> int:
        """The number of updates in one epoch."""

    # Counters

    @property
    def epoch(self) -> int:
        """The number of finished epochs."""
        return self.state.epoch

    @property
    def updates(self) -> int:
        """The number of updates since the start of the run."""
        return self.state.updates

    @property
    def env_steps(self) -> int:
        """The number of steps taken in training environments since the start of the run."""
        return self.state.env_steps

    @property
    def best_score(self) -> float | None:
        """The best score of an evaluation so far: the highest, or the lowest of a metric that is minimised."""
        found, asked = self.state.best_score, self.config.score
        return found if found is None or asked is None or asked.maximize else -found

    def count_env_steps(self, steps: int) -> None:
        """Add steps taken in training environments to the counters."""
        self.state.env_steps += whole(steps, 0, "the steps of count_env_steps")
        self.progress.env_steps = self.state.env_steps

    def count_update(self) -> None:
        """Count an update."""
        self.state.updates += 1
        self.state.updates_in_epoch += 1

    def end_epoch(self) -> None:
        """Count the epoch."""
        self.state.end_epoch()

    def record(self, metrics: dict[str, float]) -> None:
        """Add values to this epoch's metrics by full name, such as `train/explained_variance`; means are reported.

        While an epoch is trained, or before the first; at its end the hook `on_metrics` adds metrics.
        """
        self.statistics.record(metrics)

    # The clock

    @property
    def seconds(self) -> float:
        """Seconds of training since the start of the run, summed over resumed parts."""
        running = 0.0 if self._started_at is None else time.perf_counter() - self._started_at
        return self.state.seconds + running

    def start_clock(self) -> None:
        """Start counting seconds."""
        self._started_at = time.perf_counter()

    def check_time(self) -> None:
        """Pause the run here if it has trained for as long as it may since the clock was started, or `pause_when`."""
        limit, began = self.config.max_time, self._started_at
        if limit is not None and began is not None and time.perf_counter() - began >= limit:
            self.pause(f"it has trained for {timedelta(seconds=round(limit))}, as long as max_time lets it")
        if self.pause_when is not None:
            self.check_pause()

    def check_pause(self) -> None:
        """Pause the run here if `pause_when` has a reason."""
        if self.pause_when is not None and not self.interrupted and (reason := self.pause_when()) is not None:
            self.pause(reason)

    def pause(self, reason: str) -> None:
        """Ask the run to end after this update, evaluated and saved; it is not its end, so a resumed run goes on."""
        if not self.interrupted:
            self.interrupted = self.paused = True
            self.stop(reason)

    def stop_clock(self) -> None:
        """Stop counting seconds."""
        self.state.seconds, self._started_at = self.seconds, None

    # The end

    @property
    def total_env_steps(self) -> int | None:
        """The number of environment steps at which the run ends; None if open."""
        return self.config.steps

    @property
    def total_epochs(self) -> int | None:
        """The number of epochs after which training ends; None if open."""
        return self.until_epoch

    @property
    def fraction_done(self) -> float:
        """The fraction of the configured run that is done, for schedules; 0 if its end is open."""
        shares, config = [0.0], self.config
        if config.steps:
            shares.append(self.state.env_steps / config.steps)
        if config.algorithm.n_epochs:
            shares.append(self.state.updates / (config.algorithm.n_epochs * self.epoch_length))
        return min(1.0, max(shares))

    def stop(self, reason: str) -> None:
        """Ask the run to end after this epoch; `reason` is reported."""
        if not isinstance(reason, str):
            raise PluginError(f"the reason of run.stop must be a string, got {shown(reason)}")
        self.stop_reason = self.stop_reason or reason

    def interrupt(self, cause: str) -> None:
        """Ask the run to end after this update, or at once during an evaluation; `cause`: a signal, or what else it is.

        After SIGTERM the final parameters are not evaluated.
        """
        self.interrupted, self.paused = True, False
        self.terminated = self.terminated or cause == signal.SIGTERM.name
        self.stop(f"interrupted by {cause}")

    @property
    def steps_done(self) -> bool:
        """True when the configured number of environment steps is reached."""
        return self.config.steps is not None and self.state.env_steps >= self.config.steps

    @property
    def updates_remain(self) -> bool:
        """True when the epoch has further updates and nothing ends it sooner."""
        ended = self.state.epoch_trained or self.interrupted or self.steps_done
        return not ended and self.state.updates_in_epoch < self.epoch_length

    @property
    def epoch_trained(self) -> bool:
        """True when only the epoch's evaluation remains; an interruption leaves updates to a resumed run."""
        state = self.state
        if not state.epoch_trained:
            all_taken = state.updates_in_epoch >= self.epoch_length
            state.epoch_trained = all_taken or self.steps_done or not self.interrupted
        return state.epoch_trained

    @property
    def finished(self) -> bool:
        """True when the configured number of steps or epochs is done and every epoch is evaluated."""
        epochs_done = self.total_epochs is not None and self.epoch >= self.total_epochs
        return not self.state.epoch_trained and (self.steps_done or epochs_done)


_COUNT = Count()
_FORMS: dict[str, Form] = {
    "int": _COUNT,
    "bool": Bool(),
    "float": Number(0.0),
    "int | None": OrNone(_COUNT),
    "float | None": OrNone(Number()),
    "str | None": OrNone(Text()),
    "dict[str, dict[str, list[int]]]": Entries({"from": [_COUNT], "whole": [_COUNT] * 3, "filled": [_COUNT] * 3}),
}
"""What a checkpoint may hold in the place of a field of each type."""


@dataclass(slots=True)
class RunState:
    """The counters and results of a run. A checkpoint holds every field."""

    epoch: int = 0
    """Finished epochs."""
    updates_in_epoch: int = 0
    """Updates of the unfinished epoch."""
    epoch_trained: bool = False
    """True when only the unfinished epoch's evaluation remains."""
    updates: int = 0
    """Updates since the start of the run."""
    env_steps: int = 0
    """Steps taken in training environments since the start of the run."""
    seconds: float = 0.0
    """Seconds of training before the clock was last started, summed over resumed parts."""
    best_score: float | None = None
    """The highest score of an evaluation so far, of those that violate the constraints least."""
    best_violation: float = 0.0
    """By how much that evaluation violates the run's constraints; 0: not at all."""
    best_epoch: int | None = None
    """The last epoch whose evaluation reached `best_score`: the checkpoint `best` is the newest of equals."""
    improved_epoch: int | None = None
    """The first epoch whose evaluation reached `best_score`: a tie is no improvement."""
    learning_began: int = 0
    """Environment steps at the first step of the learner, in a run whose steps may be compiled."""
    compiled_from: int | None = None
    """The learner's step from which steps are compiled; None: not decided."""
    largest_batch: int = 0
    """Rows of the largest batch of a run whose steps may be compiled: smaller ones are remainders."""
    compiled_kinds: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    """The kinds of steps that are compiled, by the digest of their operations: `from` the learner's step from which on
    they are, and the counts that decide which steps of `whole` and of `filled` batches are compared."""
    recorded_anew: int = 0
    """Recordings that were made since something on which steps depend had changed within an epoch."""
    gave_up_on: str | None = None
    """The kind of device on which steps are neither compiled nor recorded any more."""

    def end_epoch(self) -> None:
        """Count the epoch."""
        self.epoch += 1
        self.updates_in_epoch = 0
        self.epoch_trained = False

    def rank(self, score: float, epoch: int, violation: float = 0.0) -> tuple[bool, bool]:
        """Compare the score of an epoch with the best so far, which it may replace: a smaller violation comes first.

        Returns:
            Whether it is better than all before, and whether it equals the best before. Nan is neither.
        """
        best = None if self.best_score is None else (-self.best_violation, self.best_score)
        is_best = not math.isnan(score + violation) and (best is None or (-violation, score) > best)
        ties_best = not is_best and (-violation, score) == best
        if is_best:
            self.best_score, self.best_violation, self.improved_epoch = score, violation, epoch
        if is_best or ties_best:
            self.best_epoch = epoch
        return is_best, ties_best

    def saved(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {each.name: varies(deepcopy(getattr(self, each.name)), _FORMS[str(each.type)]) for each in fields(self)}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore the result of `saved()`."""
        for each in fields(self):
            setattr(self, each.name, deepcopy(saved[each.name]))


@dataclass(slots=True)
class LiveProgress:
    """What displays show between two updates; only training writes it."""

    env_steps: int = 0
    phase: Literal["training", "evaluating"] = "training"
    tell: Callable[[str], object] = lambda text: None
    """Writes a line for the user; the console sets it."""
