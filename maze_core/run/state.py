"""The counters of a run: those that a checkpoint saves, and those that displays show."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from maze_core.base.saved_state import Bool, Count, Entries, Form, Number, OrNone, Text, varies

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
