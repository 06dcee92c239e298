"""The checks of searchers."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.process import left_alone
from maze_devkit.subject import Subject

from maze_sweep.searchers.base import Done, Search, Wait, Whole
from maze_sweep.searchers.space import Choices, Point, Range

if TYPE_CHECKING:
    from maze_sweep.searchers.base import Searcher

_SPACES: dict[str, dict[str, Choices | Range]] = {
    "lists": {"algorithm.lr": Choices((1e-3, 1e-2)), "model.hidden": Choices(([8], [16], [8, 8]))},
    "ranges": {"algorithm.gamma": Range(0.9, 0.99), "algorithm.lr": Range(1e-5, 1e-2, log=True), "steps": Range(1, 9)},
}
_TRIALS = 6
_WHOLE = Whole(10_000.0, "steps")


def _search(subject: Subject, part: str, folder: str) -> tuple[Searcher, Search, int] | None:
    """Return a searcher after `setup`; None if it does not support the space."""
    from maze_core import ConfigError

    where = subject.folder / folder
    where.mkdir(parents=True, exist_ok=True)
    for trials in (_TRIALS, None):  # some have a number of their own
        search = Search(_SPACES[part], 3, trials, True, where, _WHOLE)
        searcher = subject.build()
        try:
            return searcher, search, searcher.setup(search)
        except ConfigError:
            searcher.close()
    return None


def _points(subject: Subject, part: str, folder: str) -> list[Point] | None:
    found = _search(subject, part, folder)
    if found is None:
        return None
    searcher, _, trials = found
    points: list[Point] = []
    with closing(searcher):
        budgets: list[float | None] = []
        for number in range(trials):
            point = searcher.ask(number)
            if isinstance(point, Done):
                break
            if isinstance(point, Wait):
                raise Failed(f"it waits at trial {number}, although it was told the value of every trial before")
            points.append(point)
            budgets.append(_budget(searcher, number, budgets))
            searcher.tell(number, point, float(number))
    return points


def _budget(searcher: Searcher, number: int, before: list[float | None]) -> float | None:
    """Return the budget of a trial, which is larger than that of the trial that it goes on from."""
    parent = searcher.parent(number)
    if parent is not None and not 0 <= parent < number:
        raise Failed(f"trial {number} goes on from {parent}, which is no earlier trial")
    until = searcher.until(number)
    least = 0.0 if parent is None else before[parent] or 0.0
    if until is not None and not least < until <= _WHOLE.amount:
        raise Failed(f"the budget of trial {number} is {until}, not above {least:g} and up to {_WHOLE.amount:g}")
    return until


def _asked(searcher: Searcher, count: int) -> list[Point]:
    """Return the points of the first trials, up to the one that it waits for."""
    points: list[Point] = []
    for number in range(count):
        point = searcher.ask(number)
        if not isinstance(point, dict):
            break
        points.append(point)
    if not points:
        raise Failed("it waits at trial 0, before which there is no value to be told")
    return points


def _proposes(subject: Subject) -> None:
    taken = {part: _points(subject, part, part) for part in _SPACES}
    if not any(taken.values()):
        raise Failed("it supports neither lists nor ranges")
    for part, points in taken.items():
        for number, point in enumerate(points or []):
            if point.keys() != _SPACES[part].keys():
                raise Failed(f"point {number} has values for {sorted(point)}, not for {sorted(_SPACES[part])}")
            for path, value in point.items():
                if not _SPACES[part][path].holds(value):
                    raise Failed(f"point {number}: {path} = {value!r} is not among {_SPACES[part][path]}")


def _repeats(subject: Subject) -> None:
    for part in _SPACES:
        if _points(subject, part, f"{part}-1") != _points(subject, part, f"{part}-2"):
            raise Failed(f"with the same seed and values it proposes other points in a space of {part}")


def _again(subject: Subject) -> None:
    for part in _SPACES:
        found = _search(subject, part, part)
        if found is None:
            continue
        searcher, search, trials = found
        with closing(searcher):
            asked = _asked(searcher, min(3, trials))
            places = [(searcher.parent(number), searcher.until(number)) for number in range(len(asked))]
            searcher.tell(0, asked[0], 1.0)
        other = subject.build()
        other.setup(search)
        with closing(other):
            other.tell(0, asked[0], 1.0)
            if [other.ask(number) for number in range(len(asked))] != asked:
                if _points(subject, part, f"{part}-1") != _points(subject, part, f"{part}-2"):
                    raise NotApplicable("its points differ for the same seed, see the check `repeats`")
                raise Failed("set up again in the same folder, it returns other points for unfinished trials")
            if [(other.parent(number), other.until(number)) for number in range(len(asked))] != places:
                raise Failed("set up again in the same folder, unfinished trials go on from others, or end elsewhere")


def _global_state(subject: Subject) -> None:
    with left_alone("a search"):
        for part in _SPACES:
            _points(subject, part, part)


CHECKS = (
    Check(
        "proposes",
        "Each point has a value for every path of the space, and each value is in its list or range. Parents are "
        "earlier trials, and budgets grow from parent to child.",
        "A trial with a value outside of the space is refused, or worse, reported.",
        "Draw from `search.space`; round where a Range is `whole`. Return `Wait()` only while a trial is under way.",
        _proposes,
    ),
    Check(
        "repeats",
        "The same seed and the same values give the same points.",
        "Otherwise a sweep cannot be repeated.",
        "Derive every random number from `search.seed`.",
        _repeats,
    ),
    Check(
        "goes_on",
        "Set up again in the same folder, it returns the same points for unfinished trials.",
        "Sweeps are interrupted; their trials must continue with the same points.",
        "Save the points in `search.folder`, or derive each point from its number.",
        _again,
    ),
    Check(
        "global_state",
        "A search leaves random states, threads, signal handlers, environment variables and the working directory "
        "alone.",
        "Trials may run in the same process.",
        "Use your own generators.",
        _global_state,
        alone=True,
    ),
)
"""The checks of searchers."""
