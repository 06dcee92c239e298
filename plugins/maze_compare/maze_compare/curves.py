"""Learning curves: a metric over steps or time, averaged over the seeds of a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from maze_compare.groups import Group, labels, no_metric
from maze_compare.records import RunRecord
from maze_core.base.metrics import RETURN, metric_named

Axis = Literal["env_steps", "seconds", "updates", "epoch"]
_POINTS = 400


@dataclass(frozen=True, slots=True)
class Curve:
    """A group's curve. `x`, `mean`, `low`, `high`: `[points]`, float64; `runs`: x and y of each run."""

    label: str
    x: np.ndarray
    mean: np.ndarray
    """Mean over the runs, up to where the shortest run ends."""
    low: np.ndarray
    """Mean minus the standard deviation (n - 1) over the runs, but no less than the least of them."""
    high: np.ndarray
    """Mean plus the standard deviation, but no more than the largest."""
    runs: tuple[tuple[np.ndarray, np.ndarray], ...]


def curves(
    groups: Sequence[Group],
    metric: str = RETURN,
    axis: Axis = "env_steps",
    smooth: int = 1,
) -> list[Curve]:
    """Return a curve for each group that has the metric.

    Args:
        groups: what to draw.
        metric: name of the metric.
        axis: the quantity on the x axis.
        smooth: each value becomes the mean of the last `smooth` epochs; 1: no smoothing.

    Raises:
        ConfigError: no run has the metric; the message suggests others.
    """
    found = []
    for each, title in zip(groups, labels(groups), strict=True):
        lines = [line for line in (_line(run, metric, axis, smooth) for run in each.runs) if line[0].size]
        if lines:
            found.append(_curve(f"{title} ({len(lines)})", lines))
    if not found:
        raise no_metric(groups, metric)
    return found


def _line(run: RunRecord, metric: str, axis: Axis, smooth: int) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y of one run, both `[epochs]`, without epochs that lack the metric."""
    pairs = [(epoch.get(axis), metric_named(epoch, metric)) for epoch in run.epochs]
    known = np.array([pair for pair in pairs if None not in pair], dtype=np.float64).reshape(-1, 2)
    return known[:, 0], _trailing_mean(known[:, 1], smooth)


def _trailing_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Return the mean of the last `window` values at each index, of fewer at the start; `[n]` to `[n]`."""
    window = min(window, values.size)
    if window == 0:
        return values
    # Not by differences of running sums: after a huge value they would lose all small ones.
    padded = np.concatenate([np.zeros(window - 1), values])
    sums: np.ndarray = np.lib.stride_tricks.sliding_window_view(padded, window).sum(-1)
    return sums / np.minimum(np.arange(1, values.size + 1), window)


def _curve(title: str, lines: Sequence[tuple[np.ndarray, np.ndarray]]) -> Curve:
    """Return mean and band at common x values; values between a run's epochs are interpolated."""
    x = np.unique(np.concatenate([line[0] for line in lines]))
    # A mean over only the longer runs would jump where a shorter one ends.
    x = x[(x >= max(line[0][0] for line in lines)) & (x <= min(line[0][-1] for line in lines))]
    if x.size > _POINTS:
        x = np.linspace(x[0], x[-1], _POINTS)
    values = np.stack([np.interp(x, xs, ys) for xs, ys in lines])
    mean = values.mean(axis=0)
    std = values.std(axis=0, ddof=1) if len(lines) > 1 else np.zeros_like(mean)
    # A deviation beyond every run would show values that nothing reached, such as returns above the possible maximum.
    low, high = np.maximum(mean - std, values.min(axis=0)), np.minimum(mean + std, values.max(axis=0))
    return Curve(title, x, mean, low, high, tuple(lines))
