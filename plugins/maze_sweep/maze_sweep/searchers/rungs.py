"""Rungs of successive halving: how far the trials on each of them train, and how many there are."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Annotated

from pydantic import Field

from maze_core import ConfigError
from maze_sweep.searchers.base import Search, Whole
from maze_sweep.searchers.random import drawn
from maze_sweep.searchers.space import Point

WORST = float("-inf")
Reduction = Annotated[int, Field(ge=2, le=100)]
Rungs = Annotated[int, Field(ge=2, le=20)]


def whole_of(search: Search, name: str) -> Whole:
    """Return how far runs train in all.

    Raises:
        ConfigError: their end is open.
    """
    if search.whole is None:
        hint = "Next: --steps 50000, the steps of a run that nothing stops early; or --epochs, or --set max_time=1h"
        raise ConfigError(f"{name} divides how far runs train, and their end is open", "--steps", hint)
    return search.whole


def budgets(whole: Whole, rungs: int, reduction: int, name: str) -> list[float]:
    """Return the budget of each rung, `[rungs]`: the last is the whole, and each before a part of the one after it.

    Raises:
        ConfigError: two of them are the same.
    """
    found = [whole.share(reduction ** (rung + 1 - rungs)) for rung in range(rungs)]
    if any(after <= before for before, after in pairwise(found)):
        shown = ", ".join(f"{each:g}" for each in found)
        problem = f"{whole.amount:g} {whole.unit} are too few for {rungs} rungs: they would end at {shown}"
        raise ConfigError(
            problem, "searcher.rungs", f"Next: more {whole.unit}, or --searcher '{{name: {name}, rungs: 2}}'"
        )
    return found


def new_point(search: Search, number: int) -> Point:
    """Return a point drawn for a trial, as the searcher `random` draws it."""
    # A text as the seed is hashed by SHA-512, so neighbouring trials are independent.
    return {path: drawn(each, Random(f"{search.seed}/{number}/{path}")) for path, each in search.space.items()}


def signed(search: Search, value: float | None) -> float:
    """Return a value so that more is better; a failed trial is worse than all."""
    return WORST if value is None else value if search.maximize else -value
