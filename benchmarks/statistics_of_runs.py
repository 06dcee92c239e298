"""Means with confidence intervals, for few runs."""

from __future__ import annotations

import math
import statistics

T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228}
"""97.5 % quantiles of Student's t by degrees of freedom; beyond, the normal's 1.96 is a little too narrow."""


def mean_and_halfwidth(values: list[float]) -> tuple[float, float]:
    """Mean and half the width of its 95 % confidence interval (Student's t); nan width for fewer than two."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.nan
    quantile = T_975.get(len(values) - 1, 1.96)
    return mean, quantile * statistics.stdev(values) / math.sqrt(len(values))


def with_interval(values: list[float]) -> str:
    """`mean ± halfwidth`, the mean alone for one value, `-` for none."""
    if not values:
        return "-"
    mean, halfwidth = mean_and_halfwidth(values)
    return f"{mean:.1f}" if math.isnan(halfwidth) else f"{mean:.1f} ± {halfwidth:.1f}"


def spread(values: list[float], digits: str) -> str:
    """`median (min to max)`, each written with the format `digits`."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:{digits}} ({low:{digits}} to {high:{digits}})"
