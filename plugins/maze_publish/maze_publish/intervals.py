"""The interval of a mean, by Student's t distribution."""

from __future__ import annotations

import math
from statistics import NormalDist

FEWEST = 10
"""Episodes that an interval needs: from here on the quantile below is right to three digits."""


def half_width(deviation: float, number: int, level: float = 0.95) -> float | None:
    """Return half the width of the confidence interval of a mean; None for fewer than `FEWEST` values.

    Args:
        deviation: the values' standard deviation, that of the population (divided by n).
        number: how many values.
        level: of confidence.
    """
    if number < FEWEST:
        return None
    freedom = number - 1
    return t_quantile(0.5 + level / 2, freedom) * deviation / math.sqrt(freedom)


def t_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t, by its expansion around the normal one (Abramowitz and Stegun, 26.7.5)."""
    z, n = NormalDist().inv_cdf(probability), float(freedom)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )
