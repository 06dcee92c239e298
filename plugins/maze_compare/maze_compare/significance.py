"""What a few runs say about many: interquartile means, bootstrap intervals, and how often one beats the other.

The definitions are those of Agarwal et al. 2021 (arXiv 2108.13264).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from maze_compare.groups import number

RESAMPLES = 5_000
FEWEST = 3
"""Runs of each side from which on a difference is judged."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic of some runs with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        between = "" if self.low == self.high else f" ({number(self.low, 4)} to {number(self.high, 4)})"
        return number(self.value) + between


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """Return the means of the middle half along the last axis: of [..., n] values n - 2 * (n // 4)."""
    cut = values.shape[-1] // 4
    middle: np.ndarray = np.sort(values, -1)[..., cut : values.shape[-1] - cut].mean(-1)
    return middle


def probability_of_improvement(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return how often a value of [..., n] is larger than one of [..., m]; a tie counts half."""
    difference = ours[..., :, None] - theirs[..., None, :]
    share: np.ndarray = ((difference > 0) + 0.5 * (difference == 0)).mean((-1, -2))
    return share


def aggregate(values: Sequence[float]) -> Estimate | None:
    """Return the interquartile mean of runs; None if there are none, or one is not finite."""
    return _estimated(interquartile_mean, values)


def improvement(ours: Sequence[float], theirs: Sequence[float]) -> Estimate | None:
    """Return the probability that a run of ours has the larger value; None for fewer than `FEWEST` on a side."""
    if min(len(ours), len(theirs)) < FEWEST:
        return None
    return _estimated(probability_of_improvement, ours, theirs)


def verdict(better: str, other: str, found: Estimate | None) -> str:
    """Return one sentence on whether the difference of two groups means anything; `found`: that of `better`.

    The group with the better best values may have the worse final ones, which `found` compares.
    """
    if found is None:
        return f"{better} and {other}: too few runs to tell them apart; take at least {FEWEST} seeds of each"
    shares = f"{found.value:.0%} of the pairs of runs (95 % interval: {found.low:.0%} to {found.high:.0%})"
    if found.low > 0.5:
        return f"{better} is better than {other}: it wins {shares}"
    if found.high < 0.5:
        return f"{better} ends below {other}, although its best values are ahead: it wins {shares}"
    return f"{better} and {other} differ no more than chance allows: {better} wins {shares}"


def _estimated(statistic: Callable[..., np.ndarray], *samples: Sequence[float]) -> Estimate | None:
    """Return a statistic with the interval of its bootstrap, each sample drawn anew on its own."""
    arrays = [np.asarray(sample, float) for sample in samples]
    if not all(len(array) and np.isfinite(array).all() for array in arrays):
        return None
    rng = np.random.default_rng(0)  # the same runs give the same interval
    drawn = [array[rng.integers(len(array), size=(RESAMPLES, len(array)))] for array in arrays]
    low, high = np.percentile(statistic(*drawn), [2.5, 97.5])
    return Estimate(float(statistic(*arrays)), float(low), float(high))
