"""Statistics of scores over tasks and runs (Agarwal et al. 2021, arXiv 2108.13264, section 4).

The scores of an algorithm are a list with an array for each task, `[..., n]`: the last axis counts the runs, of which
each task may have another number. Every task counts the same. Results have the leading axes, which are the resamples
of a bootstrap.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Tasks = Sequence[np.ndarray]
"""An array for each task: `[..., n]`, the runs last."""


def mean(tasks: Tasks) -> np.ndarray:
    """Return the mean over tasks of the means over runs: `[...]`."""
    found: np.ndarray = _means(tasks).mean(0)
    return found


def median(tasks: Tasks) -> np.ndarray:
    """Return the median over tasks of the means over runs: `[...]`."""
    found: np.ndarray = np.median(_means(tasks), 0)
    return found


def optimality_gap(tasks: Tasks, target: float = 1.0) -> np.ndarray:
    """Return by how much runs miss a score on average, without those that are above it: `[...]`; lower is better."""
    return mean([target - np.minimum(task, target) for task in tasks])


def interquartile_mean(tasks: Tasks) -> np.ndarray:
    """Return the mean of the middle half of all runs of all tasks: `[...]`.

    Of N runs, floor(N / 4) are left out at either end. Where tasks have different numbers of runs, each run weighs as
    much as makes the tasks equal; then that weight is left out at either end, if need be of a part of a run.
    """
    counts = [task.shape[-1] for task in tasks]
    total, values = sum(counts), np.concatenate(list(tasks), -1)
    cut = total // 4
    found: np.ndarray
    if len(set(counts)) == 1:
        found = np.sort(values, -1)[..., cut : total - cut].mean(-1)
        return found
    order = np.argsort(values, -1, kind="stable")
    weights = np.concatenate([np.full(count, total / (len(counts) * count)) for count in counts])[order]
    until = np.cumsum(weights, -1)
    kept = np.clip(np.minimum(until, total - cut) - np.maximum(until - weights, cut), 0.0, None)
    found = (kept * np.take_along_axis(values, order, -1)).sum(-1) / kept.sum(-1)
    return found


def probability_of_improvement(ours: Tasks, theirs: Tasks) -> np.ndarray:
    """Return how often a run of ours has a higher score than one of theirs, as the mean over tasks: `[...]`.

    Of each task all pairs of runs are compared; a tie counts half (the statistic of Mann and Whitney).
    """
    shares = []
    for our, their in zip(ours, theirs, strict=True):
        difference = our[..., :, None] - their[..., None, :]
        shares.append(((difference > 0) + 0.5 * (difference == 0)).mean((-1, -2)))
    found: np.ndarray = np.stack(shares).mean(0)
    return found


def share_above(tasks: Tasks, thresholds: np.ndarray) -> np.ndarray:
    """Return the share of runs with a score above each of `[points]` thresholds, as the mean over tasks: `[points]`."""
    found: np.ndarray = np.stack([(task[:, None] > thresholds).mean(0) for task in tasks]).mean(0)
    return found


def _means(tasks: Tasks) -> np.ndarray:
    """Return the means over runs: `[tasks, ...]`."""
    return np.stack([task.mean(-1) for task in tasks])
