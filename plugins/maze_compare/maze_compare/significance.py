"""What a few runs of one environment say about many: interquartile means, and how often one group beats another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from maze_statistics import Estimate
from maze_statistics.bootstrap import estimates
from maze_statistics.bootstrap import improvement as estimated_improvement
from maze_statistics.points import interquartile_mean

from maze_compare.groups import number

FEWEST = 3
"""Runs of each side from which on a difference is judged."""


def estimate_text(found: Estimate, digits: int = 5) -> str:
    """Return a statistic with its interval as text."""
    ends = [number(end, min(digits, 4)) for end in (found.low, found.high)]
    between = "" if found.low == found.high else f" ({ends[0]} to {ends[1]})"
    return number(found.value, digits) + between


def normalised_text(found: Estimate) -> str:
    """Return a normalised statistic with its interval as text: three digits after the point, below each other."""
    if max(map(abs, (found.value, found.low, found.high))) >= 100:
        return estimate_text(found, 3)
    between = "" if found.low == found.high else f" ({found.low:.3f} to {found.high:.3f})"
    return f"{found.value:.3f}{between}"


def aggregate(values: Sequence[float]) -> Estimate | None:
    """Return the interquartile mean of runs; None if there are none, or one is not finite."""
    array = np.asarray(values, float)
    if not _are_finite(array):
        return None
    return estimates({"": interquartile_mean}, [array])[""]


def improvement(ours: Sequence[float], theirs: Sequence[float]) -> Estimate | None:
    """Return the probability that a run of ours has the larger value; None for fewer than `FEWEST` on a side."""
    if min(len(ours), len(theirs)) < FEWEST:
        return None
    arrays = np.asarray(ours, float), np.asarray(theirs, float)
    if not all(map(_are_finite, arrays)):
        return None
    return estimated_improvement([arrays[0]], [arrays[1]])


def verdict(better: str, other: str, found: Estimate | None) -> str:
    """Return one sentence on whether the difference of two groups means anything; `found`: that of `better`.

    The group with the better best values may have the worse final ones, which `found` compares.
    """
    if found is None:
        return f"{better} and {other}: too few runs to tell them apart; take at least {FEWEST} seeds of each"
    shares = wins(found)
    if found.low > 0.5:
        return f"{better} is better than {other}: it wins {shares}"
    if found.high < 0.5:
        return f"{better} ends below {other}, although its best values are ahead: it wins {shares}"
    return f"{better} and {other} differ no more than chance allows: {better} wins {shares}"


def wins(found: Estimate) -> str:
    """Return how often one wins, with the interval."""
    return f"{found.value:.0%} of the pairs of runs (95 % interval: {found.low:.0%} to {found.high:.0%})"


def _are_finite(array: np.ndarray) -> bool:
    return bool(array.size) and bool(np.isfinite(array).all())
