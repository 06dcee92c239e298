"""Means of numbers of any size."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable


def mean(values: Iterable[float]) -> float:
    """Return the mean of the values that are not nan, even if their sum exceeds the largest float.

    Nan without any, or where infinities of both signs are among them.
    """
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return math.nan
    try:
        return statistics.fmean(known)
    except ValueError:  # inf - inf
        return math.nan
    except OverflowError:  # exact, and slower
        return statistics.mean(known)
