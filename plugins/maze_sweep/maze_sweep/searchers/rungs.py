"""Rungs of successive halving: how far the trials on each of them train, and how many there are."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from pydantic import Field

from maze_core import ConfigError
from maze_sweep.searchers.base import Whole

FAR = "50000, the steps of a run that nothing stops early"
"""How a user says how far runs train."""
Reduction = Annotated[int, Field(ge=2, le=100)]
Rungs = Annotated[int, Field(ge=2, le=20)]


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
