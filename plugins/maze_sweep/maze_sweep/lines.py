"""Lines of trials, each of which goes on from the one before: which values a run had, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maze_sweep.ranking import ranked
from maze_sweep.searchers.space import Point
from maze_sweep.sweep import Sweep
from maze_sweep.trials import Trial


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a line in which no value changes."""

    trials: tuple[int, ...]
    began: float
    until: float | None
    """None: the end of the runs."""
    point: Point


def line_of(sweep: Sweep, trial: Trial) -> list[Trial]:
    """Return the trials that a trial goes on from, the first at the front, and itself."""
    line = [trial]
    while (parent := line[0].parent) is not None:
        line.insert(0, sweep.trials[parent])
    return line


def stretches(line: list[Trial]) -> list[Stretch]:
    """Return the parts of a line in which its values stay."""
    found: list[Stretch] = []
    for trial in line:
        if found and found[-1].point == trial.point:
            found[-1] = Stretch((*found[-1].trials, trial.number), found[-1].began, trial.until, trial.point)
        else:
            began = (found[-1].until or 0.0) if found else 0.0
            found.append(Stretch((trial.number,), began, trial.until, trial.point))
    return found


def best_line(sweep: Sweep) -> list[Stretch]:
    """Return the line of the best trial; empty if none is complete."""
    best = next((trial for trial in ranked(sweep) if trial.complete(sweep.plan)), None)
    return [] if best is None else stretches(line_of(sweep, best))


def facts_of_line(sweep: Sweep) -> list[dict[str, Any]]:
    """Return the best trial's line as plain data."""
    return [
        {"trials": list(each.trials), "from": each.began, "until": each.until, "point": each.point}
        for each in best_line(sweep)
    ]
