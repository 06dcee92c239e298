"""Reference scores, and scores normalised by them: `low` becomes 0, `high` becomes 1.

Bundled tables say where each score comes from. Where scores are better the lower they are, `high` is the smaller one.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

import numpy as np

from maze_statistics.errors import ScoresError, short
from maze_statistics.runs import Run, Scores, checked


@dataclass(frozen=True, slots=True)
class Reference:
    """What a task's scores are measured by."""

    low: float
    """A score that becomes 0, such as that of random actions."""
    high: float
    """A score that becomes 1, such as that of a human or an expert."""
    source: str = ""
    """Where the two come from."""

    def normalised(self, scores: np.ndarray) -> np.ndarray:
        """Return `[...]` scores on the scale of the two: `[...]`."""
        return (scores - self.low) / (self.high - self.low)


References = Mapping[str, Reference]
"""By task."""


def _of_atari(task: str) -> str:
    """Return the name of a game: `battlezone` for `ALE/BattleZone-v5` and `BattleZoneNoFrameskip-v4`."""
    name = re.sub(r"-v[0-9]+$", "", task.rpartition("/")[2].rpartition(":")[2])
    name = re.sub(r"(-ram)?(NoFrameskip|Deterministic)?$", "", name)
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _of_bsuite(task: str) -> str:
    """Return the experiment of a setting: `catch` for `catch/3`."""
    return re.sub(r"/[0-9]+$", "", task)


def _of_popgym(task: str) -> str:
    """Return the name of a class: `RepeatFirstEasy` for `popgym-RepeatFirstEasy-v0`."""
    return re.sub(r"-v0$", "", task.removeprefix("popgym-"))


_NAMES: dict[str, Callable[[str], str]] = {
    "atari": _of_atari,
    "bsuite": _of_bsuite,
    "minigrid": str,
    "mujoco": str,
    "popgym": _of_popgym,
}
"""The bundled tables, and what a task is called in each."""

BUNDLED = tuple(_NAMES)
"""The names of the bundled tables."""


def bundled(name: str, tasks: Iterable[str]) -> dict[str, Reference]:
    """Return the references that a bundled table has for some tasks, by the names that these have here.

    Raises:
        ScoresError: there is no such table.
    """
    if name not in _NAMES:
        raise ScoresError(f"there are no reference scores {short(name)!r}; there are {', '.join(BUNDLED)}")
    table, plain = bundled_table(name), _NAMES[name]
    known = {plain(task): reference for task, reference in table.items()}
    return {task: known[plain(task)] for task in tasks if plain(task) in known}


def bundled_table(name: str) -> dict[str, Reference]:
    """Return a bundled table whole, by the names of the tasks in it."""
    file = resources.files("maze_statistics").joinpath("tables", f"{name}.csv")
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {
        row["task"]: Reference(float(row["low"]), float(row["high"]), row["source"]) for row in csv.DictReader(lines)
    }


def parse_references(raw: Mapping[Any, Any], where: str = "scores") -> dict[str, Reference]:
    """Return references from plain data, as of a YAML file: `{task: {low: number, high: number, source: text}}`.

    Raises:
        ScoresError: it has another form; the message says where.
    """
    if not isinstance(raw, Mapping) or not raw:
        raise ScoresError(f"{where}: must have an entry TASK: {{low: 0, high: 1}} for each task")
    return {str(task): _reference(each, f"{where}: {short(task)}") for task, each in raw.items()}


def _reference(raw: object, where: str) -> Reference:
    if not isinstance(raw, Mapping) or not {"low", "high"} <= raw.keys() or raw.keys() - {"low", "high", "source"}:
        raise ScoresError(f"{where}: must have low and high, and may have source")
    low, high = (raw[name] for name in ("low", "high"))
    for value in (low, high):
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e100:
            raise ScoresError(f"{where}: low and high must be finite numbers, not {short(value, 40)}")
    if low == high or not math.isfinite(1 / (high - low)):
        raise ScoresError(f"{where}: low and high must differ")
    return Reference(float(low), float(high), str(raw.get("source", "")))


def spans(runs: Iterable[Run], *, lower: bool = False) -> dict[str, Reference]:
    """Return as references the worst and the best final score of each task; `lower`: lower scores are better.

    They depend on who is compared: an aggregate of them says nothing beside other comparisons.
    """
    scores: dict[str, list[float]] = {}
    for run in runs:
        scores.setdefault(run.task, []).append(float(run.scores[-1]))
    found = {}
    for task, each in scores.items():
        low, high = min(each), max(each)
        if low == high:
            low -= 1.0  # all reach the best
        found[task] = Reference(*((high, low) if lower else (low, high)), "the runs themselves")
    return found


def normalise(scores: Scores, by: References) -> dict[str, dict[str, np.ndarray]]:
    """Return scores normalised by the references of their tasks.

    Raises:
        ScoresError: a task has none.
    """
    found = checked(scores)
    _check_known({task for tasks in found.values() for task in tasks}, by)
    return {
        algorithm: {task: by[task].normalised(array) for task, array in tasks.items()}
        for algorithm, tasks in found.items()
    }


def normalise_runs(runs: Iterable[Run], by: References) -> list[Run]:
    """Return runs with normalised scores.

    Raises:
        ScoresError: a task has no reference.
    """
    kept = list(runs)
    _check_known({run.task for run in kept}, by)
    return [replace(run, scores=by[run.task].normalised(run.scores)) for run in kept]


def _check_known(tasks: set[str], by: References) -> None:
    if missing := sorted(tasks - by.keys()):
        names = ", ".join(map(short, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise ScoresError(f"there are no reference scores for {names}")
