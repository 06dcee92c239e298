"""Steps of the learner that are recorded once for each kind of batch, and repeated from then on."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from maze_compile.filling import Filling, rows_of_a_rollout
from maze_compile.number_inputs import numbers_as_inputs
from maze_compile.repeatable import unrepeatable
from maze_compile.surroundings import Surroundings
from maze_core.base.tolerant_output import to_stderr

if TYPE_CHECKING:
    from maze_core import Batch
    from maze_core.plugins.hookspecs import Run

_KEPT = 16
"""Recordings that are kept."""
_CHANGES, _PER_CHANGE = 20, 50
"""Recordings that changes within epochs may cost: some, and one more in so many steps. One takes as long as several
steps."""


class CannotRepeatError(Exception):
    """A step cannot be repeated; the message says why, as the end of a sentence. Empty: the user need not know."""


@contextmanager
def errors_refuse() -> Iterator[None]:
    """Raise CannotRepeatError for every error inside: the code itself may do without what failed."""
    try:
        yield
    except CannotRepeatError:
        raise
    except Exception as error:
        raise CannotRepeatError(str(error).splitlines()[0] if str(error) else type(error).__name__) from error


class Step(Protocol):
    """A step that was recorded for one kind of batch."""

    draws: bool
    """True: it draws random numbers, as many as the batch that it was recorded with needs."""

    @property
    def is_due(self) -> bool:
        """False while steps of this kind are still taken as usual."""

    def take(self, batch: Batch, filled: Batch) -> None:
        """Take the learner's step on another batch of this kind, and set the algorithm's `row_results`.

        Args:
            batch: the batch.
            filled: the same of this kind, perhaps with further rows, whose `row_results` are kept, too.

        Raises:
            CannotRepeatError: it computes something else than the code. Nothing is learnt then.
        """


class Recorder(Protocol):
    """Records steps: in memory of a GPU, or as code of a compiler."""

    failure: str
    """What updates are where it fails, as a part of a sentence."""
    reads_settings: bool
    """True: its steps read the settings of the optimizer anew. Else only learning rates may change."""

    def begin_step(self, batch: Batch) -> bool:
        """Prepare for the step of a batch; return True if it may be recorded."""

    def record(self, batch: Batch) -> Step:
        """Return the step of a batch. Nothing is learnt from it.

        Raises:
            CannotRepeatError: it cannot be recorded.
        """

    def close(self) -> None:
        """End what still makes recordings; safe to call twice."""


class RepeatedSteps:
    """Takes the steps of a run: each kind of batch is recorded at its first step, and repeated from then on.

    What else a step depends on is a part of its kind. A step that cannot be recorded, or whose recording computes
    something else, is taken as usual, as all later ones are.
    """

    def __init__(self, run: Run, recorder: Recorder) -> None:
        self._run, self._learner, self._recorder = run, run.learner, recorder
        self._algorithm: Any = run.algorithm
        self._recorded: dict[Hashable, Step] = {}
        self.recording = False
        """True while a step is recorded: its gradients must come from torch's operations."""
        self._least, self._filling = _rows_of_whole_rollouts(run), Filling.of(run)
        self._surroundings = Surroundings(run, settings=not recorder.reads_settings)
        self._known: dict[Hashable, int] = {}
        """What looks have found, numbered."""
        self._current: int | None = None
        """The number of what was found last; None: nobody has looked yet."""
        self._looked_at = False
        """True once somebody has looked in this epoch."""
        self._within_epoch = False
        """True once something has changed within this epoch."""
        self.reason = ""
        """Why it was given up in this process, if that was told."""

    @property
    def given_up(self) -> bool:
        """True once some step could not be repeated; a checkpoint holds it."""
        return self._run.state.gave_up_on == self._run.device.type

    def begin_epoch(self) -> None:
        """Begin an epoch: plugins may have changed the networks, so they are looked at again at the next step."""
        self._looked_at = self._within_epoch = False
        if self.given_up and not self.reason and self._run.config.compile == "on":
            self._say("this run had given it up before it was resumed")

    def step(self, batch: Batch) -> bool:
        """Take one optimizer step on a batch from a recording; return False where it is to be taken as usual."""
        given_up = self.given_up
        filled = batch if given_up else self._filling.filled(batch)
        return self._recorder.begin_step(filled) and not given_up and self._repeated(batch, filled)

    def _repeated(self, batch: Batch, filled: Batch) -> bool:
        """Take a step from a recording; return False if it is to be taken as usual."""
        try:
            kind = self._kind_of(filled)
            if kind is None:
                return False
            repeated = self._recording(kind, filled)
            rows, with_further = len(batch), len(filled)
            # The further rows would take random numbers that other rows get in a run without recordings.
            if not repeated.is_due or (rows < with_further and repeated.draws):
                return False
            repeated.take(batch, filled)
        except CannotRepeatError as error:
            self._give_up(str(error))
            return False
        if rows < with_further:
            kept = self._algorithm.row_results
            self._algorithm.row_results = {name: leaf[:rows] for name, leaf in kept.items()}
        return True

    def _recording(self, kind: Hashable, batch: Batch) -> Step:
        if (found := self._recorded.get(kind)) is not None:
            return found
        if self._within_epoch:
            self._count_change()
        if len(self._recorded) >= _KEPT:
            del self._recorded[next(iter(self._recorded))]
        self.recording = True
        try:
            with numbers_as_inputs(self._run):
                self._recorded[kind] = self._recorder.record(batch)
        finally:
            self.recording = False
        return self._recorded[kind]

    def _count_change(self) -> None:
        state = self._run.state
        state.recorded_anew += 1
        if state.recorded_anew > _CHANGES + self._learner.steps // _PER_CHANGE:
            raise CannotRepeatError("what its steps depend on changes too often")

    def _kind_of(self, batch: Batch) -> Hashable | None:
        """Return what tells steps apart that need recordings of their own; None: this one cannot be recorded."""
        surroundings = self._surroundings
        if self._looked_at and not surroundings.same():
            self._within_epoch = True
            self._look()
        elif not self._looked_at and not self._is_unchanged():
            self._look()
        self._looked_at = True
        constants = self._algorithm.loss_constants()
        if constants is None or batch.sequences is not None or len(batch) < self._least:
            return None
        leaves = [
            (key, leaf.shape, leaf.stride(), leaf.dtype, leaf.device)
            for tree in (batch.obs, batch.actions, batch.extra, batch.next_obs)
            for key, leaf in tree.items()
        ]
        return batch.objective, batch.group, constants, tuple(leaves), self._current

    def _is_unchanged(self) -> bool:
        with numbers_as_inputs(self._run):
            return self._current is not None and self._surroundings.unchanged()

    def _look(self) -> None:
        """Find out what steps depend on beside their batches.

        Raises:
            CannotRepeatError: they may depend on something else each time.
        """
        if (reason := unrepeatable(self._run)) is not None:
            raise CannotRepeatError(reason)
        with numbers_as_inputs(self._run):
            found = self._surroundings.look()
        self._current = self._known.setdefault(found, len(self._known))

    def close(self) -> None:
        """End what still makes recordings; safe to call twice."""
        self._recorded.clear()
        self._known.clear()
        self._recorder.close()

    def _give_up(self, reason: str) -> None:
        self._run.state.gave_up_on = self._run.device.type
        self.close()
        if reason:
            self._say(reason)

    def _say(self, reason: str) -> None:
        self.reason = reason
        steps = self._learner.steps
        since = f" from step {steps + 1:,} on" if steps else ""
        note_failure(self._algorithm.config.name, f"{self._recorder.failure}{since}", reason)


def note_failure(name: str, failure: str, reason: str) -> None:
    """Say that the updates of an algorithm are taken as usual, and why."""
    to_stderr(f"note: the updates of {name} are {failure}: {reason}; the run goes on")


def _rows_of_whole_rollouts(run: Run) -> int:
    """Return how many rows a batch has that is a whole rollout; 0 where batches are no whole rollouts.

    One that lacks the rows of resets may have another size each time, which is no kind of its own.
    """
    rows = rows_of_a_rollout(run)
    return rows if rows <= getattr(run.config.algorithm, "batch_size", math.inf) else 0
