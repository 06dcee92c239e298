"""The searcher `hyperband`: several successive halvings, which differ in how early they compare.

Algorithm 1 of Li et al. 2018, "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization", arXiv
1603.06560.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maze_core import ConfigError, PluginConfig
from maze_sweep.searchers.base import Search, Searcher, Wait
from maze_sweep.searchers.random import drawn_point
from maze_sweep.searchers.rungs import FAR, Reduction, Rungs, budgets
from maze_sweep.searchers.space import Point


@dataclass(frozen=True, slots=True)
class Group:
    """Trials that are compared with each other: those of a bracket on one rung."""

    bracket: int
    """The number of its rungs below the last one: 0 compares only at the end."""
    rung: int
    """Among the rungs of all brackets, of which the last is the end of the runs."""
    first: int
    """The number of its first trial."""
    size: int


def brackets(rungs: int, reduction: int) -> list[list[int]]:
    """Return how many trials each bracket has on each of its rungs, the bracket that compares earliest first.

    With `s` rungs below the last one a bracket begins with `ceil(rungs / (s + 1) * reduction ** s)` points, so that all
    brackets take about the same steps, and each rung keeps 1 in `reduction`.
    """
    found = []
    for below in range(rungs - 1, -1, -1):
        points = -(-rungs * reduction**below // (below + 1))
        found.append([points // reduction**step for step in range(below + 1)])
    return found


def groups(rungs: int, reduction: int) -> list[Group]:
    """Return the groups in the order in which their trials are numbered: the beginnings of all brackets first.

    So a group seldom waits for the one that it goes on from: others are between them.
    """
    found: list[Group] = []
    first, table = 0, brackets(rungs, reduction)
    for step in range(rungs):
        for row in table:
            if step < len(row):
                below = len(row) - 1
                found.append(Group(below, rungs - 1 - below + step, first, row[step]))
                first += row[step]
    return found


class HyperbandConfig(PluginConfig):
    """The parameters of hyperband."""

    reduction: Reduction = 3
    """Of the trials on each rung the best 1 in so many go on, and train so many times as far (η)."""
    rungs: Rungs = 4
    """The rungs of the bracket that compares earliest, and the number of brackets. 4 of them with a reduction of 3
    begin with 27, 12, 6 and 4 points."""


class HyperbandSearcher(Searcher):
    """Successive halving that hedges: brackets of many points that are compared early, and of few that train longer."""

    Config: ClassVar[type[PluginConfig]] = HyperbandConfig
    config: HyperbandConfig

    def setup(self, search: Search) -> int:
        """Return the number of trials, which follows from the rungs."""
        config = self.config
        self._search = search
        self._budgets = budgets(search.divided("hyperband", FAR), config.rungs, config.reduction, "hyperband")
        self._groups = groups(config.rungs, config.reduction)
        self._values: dict[int, float] = {}
        self._parents: dict[int, int | None] = {number: each.parent for number, each in enumerate(search.begun)}
        self._points: dict[int, Point] = {number: each.point for number, each in enumerate(search.begun)}
        total = sum(each.size for each in self._groups)
        if search.trials not in (None, total):
            hint = "Next: leave --trials out, or --searcher asha, which takes a number of points"
            raise ConfigError(f"{config.rungs} rungs have {total} trials, not {search.trials}", "--trials", hint)
        return total

    def ask(self, number: int) -> Point | Wait:
        """Return a new point, or that of a trial that goes on. Waits for the group before."""
        if number in self._points:
            return self._points[number]
        group, before = self._place(number)
        parent = None
        if before is not None:
            members = range(before.first, before.first + before.size)
            if any(each not in self._values for each in members):
                return Wait()
            parent = sorted(members, key=lambda each: (-self._values[each], each))[number - group.first]
        self._parents[number] = parent
        self._points[number] = drawn_point(self._search, number) if parent is None else self._points[parent]
        return self._points[number]

    def parent(self, number: int) -> int | None:
        """Return the trial on the rung below."""
        return self._parents[number]

    def until(self, number: int) -> float:
        """Return the budget of the trial's rung."""
        return self._budgets[self._place(number)[0].rung]

    def length(self) -> float:
        """Return how far the trials of all brackets train together."""
        return sum(each.size * self._part(each) for each in self._groups)

    def _part(self, group: Group) -> float:
        """Return how far a trial of a group trains from where the bracket's group before ended."""
        below = self._budgets[group.rung - 1] if group.rung > len(self._budgets) - 1 - group.bracket else 0.0
        return self._budgets[group.rung] - below

    def tell(self, number: int, point: Point, value: float | None) -> None:
        """Receive the value of a trial."""
        self._values[number] = self._search.signed(value)

    def _place(self, number: int) -> tuple[Group, Group | None]:
        """Return the group of a trial, and the one that it goes on from."""
        group = next(each for each in self._groups if each.first <= number < each.first + each.size)
        below = (each for each in self._groups if (each.bracket, each.rung) == (group.bracket, group.rung - 1))
        return group, next(below, None)
