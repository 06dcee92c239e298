"""The searcher `asha`: asynchronous successive halving, in an order that depends on no clock.

Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", arXiv 1810.05934, algorithm 2. What a worker is
given there depends on which trials have ended by then. Here it is what workers would be given that are all equally
fast, so that a trial takes as long as its steps: the same on one machine or many, and after an interruption.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar

from pydantic import Field

from maze_core import ConfigError, PluginConfig
from maze_sweep.searchers.base import WORST, Done, Search, Searcher, Wait
from maze_sweep.searchers.random import asked_for, drawn_point
from maze_sweep.searchers.rungs import FAR, Reduction, Rungs, budgets
from maze_sweep.searchers.space import Point


@dataclass(frozen=True, slots=True)
class Job:
    """A trial's place: its rung, and the trial on the rung below that it goes on from."""

    rung: int
    parent: int | None = None


def completions(costs: Sequence[float], workers: int) -> list[int]:
    """Return jobs in the order in which they end on workers of one speed; one begins when another one has ended.

    Args:
        costs: how long each takes, `[J]`, in the order in which they begin.
        workers: how many run at a time.

    Returns:
        Numbers of jobs, `[J]`; of two that end at one moment, the one that began first.
    """
    running: list[tuple[float, int]] = []
    ended: list[int] = []
    now = 0.0
    for number, cost in enumerate(costs):
        if len(running) == workers:
            now, first = heapq.heappop(running)
            ended.append(first)
        heapq.heappush(running, (now + cost, number))
    return ended + [number for _, number in sorted(running)]


def promoted(jobs: Sequence[Job], values: Mapping[int, float], rungs: int, reduction: int) -> Job | None:
    """Return the next trial on a higher rung, the highest to which one may be promoted; None: no trial may be.

    Args:
        jobs: the trials that have begun.
        values: by number, of those that are known to have ended; more is better, and minus infinity has failed.
        rungs: how many there are.
        reduction: of a rung's known trials the best `1 / reduction` go on.
    """
    gone_on = {job.parent for job in jobs}
    for rung in range(rungs - 2, -1, -1):
        known = [number for number, job in enumerate(jobs) if job.rung == rung and number in values]
        best = sorted(known, key=lambda number: (-values[number], number))[: len(known) // reduction]
        if waiting := [number for number in best if number not in gone_on and values[number] > WORST]:
            return Job(rung + 1, waiting[0])
    return None


def last_one(jobs: Sequence[Job], values: Mapping[int, float], rungs: int) -> Job | None:
    """Return the best trial of the highest rung that has any, to let it go on where no other does; None: it is there.

    So one trial reaches the end of its runs, however few there are. Arguments as for `promoted`.
    """
    whole = [number for number in range(len(jobs)) if values[number] > WORST]
    highest = max((jobs[number].rung for number in whole), default=rungs)
    if highest >= rungs - 1:
        return None
    best = min((number for number in whole if jobs[number].rung == highest), key=lambda each: (-values[each], each))
    return Job(highest + 1, best)


class ASHAConfig(PluginConfig):
    """The parameters of asynchronous successive halving."""

    reduction: Reduction = 3
    """Of the trials on each rung the best 1 in so many go on, and train so many times as far (η)."""
    rungs: Rungs = 4
    """How often trials are compared, the end of the runs included: with 4 rungs and a reduction of 3 the first budget
    is 1/27 of `steps`."""
    workers: Annotated[int, Field(ge=1, le=10_000)] = 4
    """How many trials may be under way. It decides which of them are known when one is promoted, so the result depends
    on it, and not on how many really run at a time (`--jobs`), which should be as many."""


class ASHASearcher(Searcher):
    """Begin many points, and let the best of those go on: each is compared after a part of the steps."""

    Config: ClassVar[type[PluginConfig]] = ASHAConfig
    config: ASHAConfig
    open_ended: ClassVar[bool] = True

    def setup(self, search: Search) -> int:
        """Return about how many trials there will be on all rungs; the user asks for those on the first."""
        config = self.config
        self._search, self._count = search, asked_for(search)
        self._budgets = budgets(search.divided("asha", FAR), config.rungs, config.reduction, "asha")
        self._jobs = [Job(self._rung(each.until), each.parent) for each in search.begun]
        self._points: dict[int, Point] = {number: each.point for number, each in enumerate(search.begun)}
        self._values: dict[int, float] = {}
        self._done = False
        return sum(self._expected())

    def _rung(self, until: float | None) -> int:
        if until not in self._budgets:
            raise ConfigError("the trials in this folder have other budgets", "searcher", "Next: name another folder.")
        return self._budgets.index(until)

    def ask(self, number: int) -> Point | Wait | Done:
        """Return a new point, or that of a trial that goes on."""
        while len(self._jobs) <= number:
            job = self._next()
            if not isinstance(job, Job):
                self._done = isinstance(job, Done)
                return job
            self._jobs.append(job)
            new = len(self._jobs) - 1
            self._points[new] = drawn_point(self._search, new) if job.parent is None else self._points[job.parent]
        return self._points[number]

    def parent(self, number: int) -> int | None:
        """Return the trial on the rung below."""
        return self._jobs[number].parent

    def until(self, number: int) -> float:
        """Return the budget of the trial's rung."""
        return self._budgets[self._jobs[number].rung]

    def length(self) -> float:
        """Return how far the trials train together: those that have begun, and about as many as will."""
        parts = [self._budgets[0], *(after - before for before, after in pairwise(self._budgets))]
        return sum(count * part for count, part in zip(self._expected(), parts, strict=True))

    def _expected(self) -> list[int]:
        """Return about how many trials there will be on each rung, `[rungs]`: at least those that have begun."""
        found: list[int] = []
        for rung in range(self.config.rungs):
            begun = sum(job.rung == rung for job in self._jobs)
            more = max(1, found[-1] // self.config.reduction) if found else self._count
            found.append(begun if self._done else max(begun, more))
        return found

    def tell(self, number: int, point: Point, value: float | None) -> None:
        """Receive the value of a trial."""
        self._values[number] = self._search.signed(value)

    def _next(self) -> Job | Wait | Done:
        """Return what follows the jobs so far. It waits for a value that the workers would know by then."""
        jobs, config = self._jobs, self.config
        ended = completions([self._cost(job) for job in jobs], config.workers)
        # With no more points to begin, a worker that finds nothing to go on with waits for one more end.
        for count in range(max(0, len(jobs) - config.workers + 1), len(ended) + 1):
            if any(number not in self._values for number in ended[:count]):
                return Wait()
            values = {number: self._values[number] for number in ended[:count]}
            if (found := promoted(jobs, values, config.rungs, config.reduction)) is not None:
                return found
            if sum(job.rung == 0 for job in jobs) < self._count:
                return Job(0)
        return last_one(jobs, self._values, config.rungs) or Done()

    def _cost(self, job: Job) -> float:
        return self._budgets[job.rung] - (self._budgets[job.rung - 1] if job.rung else 0.0)
