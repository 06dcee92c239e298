"""Intervals by the stratified bootstrap: the runs of each task are drawn anew, with replacement, on their own.

The intervals are those of the percentiles (Efron 1979; Agarwal et al. 2021, section 4.1). The same scores and the same
seed give the same interval, and another algorithm beside it changes none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from maze_statistics.errors import ScoresError
from maze_statistics.points import Tasks, probability_of_improvement, share_above

RESAMPLES = 5_000
_AT_ONCE = 4_000_000
"""Most scores that are drawn at a time."""

Statistic = Callable[[Tasks], np.ndarray]
"""Takes arrays `[..., n]`, and returns `[...]`."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic of some runs with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Band:
    """A curve with its pointwise interval; all are `[points]`, float64."""

    x: np.ndarray
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def check_options(resamples: int, level: float) -> None:
    """Raise ScoresError for options of a bootstrap that say nothing."""
    if not 1 <= resamples <= 1_000_000:
        raise ScoresError(f"resamples must be a number from 1 to 1,000,000, not {resamples}")
    if not 0.0 < level < 1.0:
        raise ScoresError(f"level must be between 0 and 1, such as 0.95, not {level}")


def estimates(
    statistics: Mapping[str, Statistic],
    tasks: Tasks,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Estimate]:
    """Return statistics with their intervals, all from the same draws.

    Args:
        statistics: by name.
        tasks: the scores of each, arrays `[n]`.
        resamples: how often the runs are drawn.
        seed: of the draws.
        level: share of the draws within the interval.
    """
    check_options(resamples, level)
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in statistics}
    for chunk in _draws(tasks, resamples, seed):
        for name, statistic in statistics.items():
            drawn[name].append(statistic(chunk))
    found = {}
    for name, statistic in statistics.items():
        low, high = np.percentile(np.concatenate(drawn[name]), _ends(level))
        found[name] = Estimate(float(statistic(tasks)), float(low), float(high))
    return found


def improvement(
    ours: Tasks, theirs: Tasks, *, resamples: int = RESAMPLES, seed: int = 0, level: float = 0.95
) -> Estimate:
    """Return the probability that a run of ours has the higher score than one of theirs, with its interval.

    A draw is how often each run is in it, so that its share of won pairs is a product of matrices.
    """
    check_options(resamples, level)
    rng = np.random.default_rng(seed)
    drawn = np.zeros(resamples)
    for our, their in zip(ours, theirs, strict=True):
        won = (our[:, None] > their) + 0.5 * (our[:, None] == their)
        often = _often(our.size, resamples, rng) @ won
        drawn += (often * _often(their.size, resamples, rng)).sum(-1) / (won.size * len(ours))
    low, high = np.percentile(drawn, _ends(level))
    return Estimate(float(probability_of_improvement(ours, theirs)), float(low), float(high))


def profile_band(
    tasks: Tasks, thresholds: np.ndarray, *, resamples: int = RESAMPLES, seed: int = 0, level: float = 0.95
) -> Band:
    """Return the share of runs above each of `[points]` thresholds with its pointwise interval."""
    check_options(resamples, level)
    rng = np.random.default_rng(seed)
    drawn = np.zeros((resamples, thresholds.size))
    for task in tasks:
        drawn += _often(task.size, resamples, rng) @ (task[:, None] > thresholds) / (task.size * len(tasks))
    low, high = np.percentile(drawn, _ends(level), axis=0)
    return Band(thresholds, share_above(tasks, thresholds), low, high)


def curve_band(statistic: Statistic, x: np.ndarray, tasks: Tasks, *, resamples: int, seed: int, level: float) -> Band:
    """Return a statistic at each of `[points]` with its pointwise interval; `tasks`: arrays `[points, n]`.

    A draw takes whole runs, the same at all points.
    """
    check_options(resamples, level)
    rng = np.random.default_rng(seed)
    index = [rng.integers(task.shape[-1], size=(resamples, task.shape[-1])) for task in tasks]
    low, high = np.empty(x.size), np.empty(x.size)
    for point in range(x.size):
        drawn = statistic([task[point][each] for task, each in zip(tasks, index, strict=True)])
        low[point], high[point] = np.percentile(drawn, _ends(level))
    return Band(x, statistic(tasks), low, high)


def _ends(level: float) -> tuple[float, float]:
    """Return the percentiles at the ends of an interval."""
    return 50 * (1 - level), 50 * (1 + level)


def _often(count: int, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Return how often each of some runs is in each draw: `[resamples, count]`."""
    found: np.ndarray = rng.multinomial(count, np.full(count, 1 / count), size=resamples).astype(np.float64)
    return found


def _draws(tasks: Tasks, resamples: int, seed: int) -> Iterator[list[np.ndarray]]:
    """Yield draws of the runs of each task, `[some, n]`, as many in all as there are resamples."""
    rng = np.random.default_rng(seed)
    some = max(1, _AT_ONCE // sum(task.size for task in tasks))
    for begin in range(0, resamples, some):
        count = min(some, resamples - begin)
        yield [task[rng.integers(task.size, size=(count, task.size))] for task in tasks]
