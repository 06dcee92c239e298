"""Runs, their final scores, and what is refused about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from maze_statistics.errors import ScoresError, short

Take = Literal["last", "best"]
"""Which score of a run counts: its last one, or its best."""

Scores = Mapping[str, Mapping[str, Sequence[float] | np.ndarray]]
"""For each algorithm the scores of its runs in each task."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run: an algorithm on a task with a seed. `steps`, `scores`: `[n]`, float64, by rising steps; n is not 0."""

    algorithm: str
    task: str
    seed: str
    steps: np.ndarray
    scores: np.ndarray

    def final(self, take: Take = "last", *, lower: bool = False) -> float:
        """Return its last score, or its best; `lower`: lower ones are better."""
        if take == "last":
            return float(self.scores[-1])
        return float(self.scores.min() if lower else self.scores.max())


def final_scores(runs: Iterable[Run], take: Take = "last", *, lower: bool = False) -> dict[str, dict[str, np.ndarray]]:
    """Return the score of each run by algorithm and task; `lower`: lower scores are better."""
    found: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        found.setdefault(run.algorithm, {}).setdefault(run.task, []).append(run.final(take, lower=lower))
    return {
        algorithm: {task: np.array(each) for task, each in sorted(tasks.items())} for algorithm, tasks in found.items()
    }


def checked(scores: Scores) -> dict[str, dict[str, np.ndarray]]:
    """Return scores as arrays `[n]`, the tasks of all algorithms in the same order.

    Raises:
        ScoresError: there are none; one is no finite number; or an algorithm has other tasks than another one, so
            that their aggregates could not be compared.
    """
    if not scores or not all(scores.values()):
        raise ScoresError("there are no scores")
    found = {
        algorithm: {task: _array(algorithm, task, tasks[task]) for task in sorted(tasks)}
        for algorithm, tasks in scores.items()
    }
    every = {task for tasks in found.values() for task in tasks}
    for algorithm, tasks in found.items():
        if missing := sorted(every - tasks.keys()):
            names = ", ".join(map(short, missing[:3])) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
            raise ScoresError(
                f"{short(algorithm)} has no run on {names}, which others have: aggregates over different tasks cannot "
                "be compared. Add the runs, or leave out those tasks"
            )
    return found


def _array(algorithm: str, task: str, values: Sequence[float] | np.ndarray) -> np.ndarray:
    where = f"{short(algorithm)} on {short(task)}"
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ScoresError(f"{where}: scores must be numbers") from None
    if array.ndim != 1 or not array.size:
        raise ScoresError(f"{where}: scores must be a list with a number for each run, not of shape {array.shape}")
    if not np.isfinite(array).all():
        raise ScoresError(f"{where}: a score is not a finite number")
    if np.abs(array).max() > 1e100:
        raise ScoresError(f"{where}: a score is larger than 1e100")
    return array
