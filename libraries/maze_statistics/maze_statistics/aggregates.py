"""What a comparison of algorithms over tasks and seeds says: aggregates, profiles, improvements, curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations

import numpy as np

from maze_statistics.bootstrap import (
    RESAMPLES,
    Band,
    Estimate,
    Statistic,
    curve_band,
    estimates,
    improvement,
    profile_band,
)
from maze_statistics.errors import ScoresError, short
from maze_statistics.points import interquartile_mean, mean, median, optimality_gap
from maze_statistics.runs import Run, Scores, checked

_POINTS = 50
_CURVE_RESAMPLES = 1_000


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What an algorithm reaches over all tasks; the names are those of Agarwal et al. 2021."""

    iqm: Estimate
    """The interquartile mean: the mean of the middle half of all runs."""
    median: Estimate
    """The median over tasks of their means."""
    mean: Estimate
    optimality_gap: Estimate
    """By how much runs miss the target score on average; lower is better."""
    runs: int
    tasks: int


def aggregate(
    scores: Scores, *, target: float = 1.0, resamples: int = RESAMPLES, seed: int = 0, level: float = 0.95
) -> dict[str, Aggregate]:
    """Return the aggregates of each algorithm with stratified bootstrap intervals.

        aggregate({"ppo": {"Pong": [0.9, 1.1, 1.0], "Breakout": [2.1, 1.8, 2.4]}})["ppo"].iqm

    Args:
        scores: for each algorithm the normalised scores of its runs in each task; numbers of runs may differ.
        target: the score that the optimality gap is measured from.
        resamples: draws of the bootstrap.
        seed: of the draws.
        level: share of the draws within the intervals.

    Raises:
        ScoresError: a score is not finite, or algorithms have different tasks.
    """
    statistics: dict[str, Statistic] = {
        "iqm": interquartile_mean,
        "median": median,
        "mean": mean,
        "optimality_gap": partial(optimality_gap, target=target),
    }
    found = {}
    for algorithm, tasks in checked(scores).items():
        arrays = list(tasks.values())
        each = estimates(statistics, arrays, resamples=resamples, seed=seed, level=level)
        found[algorithm] = Aggregate(**each, runs=sum(array.size for array in arrays), tasks=len(arrays))
    return found


def improvements(
    scores: Scores, *, resamples: int = RESAMPLES, seed: int = 0, level: float = 0.95
) -> dict[tuple[str, str], Estimate]:
    """Return for each ordered pair of algorithms how often the first has the higher score, with its interval.

    On each task all pairs of runs are compared, ties count half; the value is the mean over tasks.
    """
    arrays = {algorithm: list(tasks.values()) for algorithm, tasks in checked(scores).items()}
    found: dict[tuple[str, str], Estimate] = {}
    for one, two in permutations(arrays, 2):
        if (two, one) in found:
            back = found[two, one]
            found[one, two] = Estimate(1 - back.value, 1 - back.high, 1 - back.low)
        else:
            found[one, two] = improvement(arrays[one], arrays[two], resamples=resamples, seed=seed, level=level)
    return found


def profiles(
    scores: Scores,
    thresholds: Sequence[float] | np.ndarray | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Band]:
    """Return the performance profile of each algorithm: the share of its runs above each score.

    Args:
        scores: for each algorithm the normalised scores of its runs in each task.
        thresholds: rising scores; None: 101 from the least score of all to the largest.
        resamples: draws of the bootstrap.
        seed: of the draws.
        level: share of the draws within the pointwise intervals.
    """
    found = checked(scores)
    if thresholds is None:
        every = np.concatenate([array for tasks in found.values() for array in tasks.values()])
        thresholds = np.linspace(min(0.0, every.min()), every.max(), 101)
    at = np.asarray(thresholds, dtype=np.float64)
    if at.ndim != 1 or not at.size or not np.isfinite(at).all():
        raise ScoresError("thresholds must be a list of finite numbers")
    return {
        algorithm: profile_band(list(tasks.values()), at, resamples=resamples, seed=seed, level=level)
        for algorithm, tasks in found.items()
    }


def sample_efficiency(
    runs: Iterable[Run],
    *,
    share: bool = False,
    resamples: int = _CURVE_RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Band]:
    """Return the interquartile mean of each algorithm over the steps, with its pointwise interval.

    At a number of steps each run has the last score that it had until then. A curve begins where all of its runs have
    a score, and ends where the first of them ends.

    Args:
        runs: with normalised scores.
        share: count steps as a share of those of the longest run of the task, as where tasks have different budgets.
        resamples: draws of the bootstrap.
        seed: of the draws.
        level: share of the draws within the intervals.

    Raises:
        ScoresError: algorithms have different tasks, or no steps in common.
    """
    by_algorithm: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        by_algorithm.setdefault(run.algorithm, {}).setdefault(run.task, []).append(run)
    checked({name: {task: [0.0] for task in tasks} for name, tasks in by_algorithm.items()})
    ends = _ends(by_algorithm) if share else {}
    return {
        name: _curve(name, tasks, ends, resamples=resamples, seed=seed, level=level)
        for name, tasks in by_algorithm.items()
    }


def _ends(by_algorithm: Mapping[str, Mapping[str, Sequence[Run]]]) -> dict[str, float]:
    """Return the steps of the longest run of each task."""
    found: dict[str, float] = {}
    for tasks in by_algorithm.values():
        for task, runs in tasks.items():
            found[task] = max(found.get(task, 0.0), *(float(run.steps[-1]) for run in runs))
    return found


def _curve(
    name: str,
    tasks: Mapping[str, Sequence[Run]],
    ends: Mapping[str, float],
    *,
    resamples: int,
    seed: int,
    level: float,
) -> Band:
    scaled = {
        task: [(run.steps / (ends.get(task) or 1.0), run.scores) for run in runs]
        for task, runs in sorted(tasks.items())
    }
    lines = [line for each in scaled.values() for line in each]
    begin, end = max(line[0][0] for line in lines), min(line[0][-1] for line in lines)
    if begin > end:
        raise ScoresError(
            f"{short(name)}: a run begins at {begin:g} steps, after another one has ended, at {end:g}: there is no "
            "common curve"
        )
    x = np.unique(np.concatenate([line[0] for line in lines]))
    x = x[(x >= begin) & (x <= end)]
    if x.size > _POINTS:
        x = np.linspace(begin, end, _POINTS)
    values = [np.stack([_held(x, *line) for line in each], -1) for each in scaled.values()]
    return curve_band(interquartile_mean, x, values, resamples=resamples, seed=seed, level=level)


def _held(x: np.ndarray, steps: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the last of the scores until each of `[points]` steps: `[points]`."""
    found: np.ndarray = scores[np.searchsorted(steps, x, side="right") - 1]
    return found
