"""Means with confidence intervals, for few runs."""

from __future__ import annotations

import math
import statistics

from maze_compare.significance import FEWEST, aggregate

T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228}
"""97.5 % quantiles of Student's t by degrees of freedom; beyond, the normal's 1.96 is a little too narrow."""


def mean_and_halfwidth(values: list[float]) -> tuple[float, float]:
    """Mean and half the width of its 95 % confidence interval (Student's t); nan width for fewer than two."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.nan
    quantile = T_975.get(len(values) - 1, 1.96)
    return mean, quantile * statistics.stdev(values) / math.sqrt(len(values))


def number(value: float, beside: float = 0.0) -> str:
    """A number as tables have it: no digit after the point if it or the one beside it reaches 1,000, else one."""
    return f"{value:,.{0 if max(abs(value), abs(beside)) >= 1000 else 1}f}"


def with_interval(values: list[float]) -> str:
    """`mean ± halfwidth` on one line, the mean alone for one value, `-` for none."""
    if not values:
        return "-"
    mean, halfwidth = mean_and_halfwidth(values)
    return number(mean) if math.isnan(halfwidth) else f"{number(mean)}\u00a0±\u00a0{number(halfwidth, mean)}"


def middle_half(values: list[float]) -> str:
    """The interquartile mean with the 95 % interval of its bootstrap, on one line; `-` for fewer than three values."""
    found = aggregate(values) if len(values) >= FEWEST else None
    if found is None:
        return "-"
    low, high = (number(each, found.value) for each in (found.low, found.high))
    return f"{number(found.value)}\u00a0({low}\u00a0to\u00a0{high})"


def spread(values: list[float], digits: str) -> str:
    """`median (min to max)`, each written with the format `digits`."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:{digits}} ({low:{digits}} to {high:{digits}})"
