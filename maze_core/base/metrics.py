"""Metrics: numbers of any size, their means and deviations, and dicts of them that are complete."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, NoReturn, TypeVar

from maze_core.base.errors import PluginError

V = TypeVar("V")
RETURN = "eval/return_mean"
VIOLATION = "eval/constraint_violation"
"""The metric by how much an evaluation violates constraints: smaller ones come first, whatever the score."""


def as_number(value: Any) -> float:
    """Return a number, or an array or tensor with one number, as a float.

    Raises:
        TypeError: it is something else, such as a text.
    """
    if getattr(value, "size", None) == 1 or getattr(value, "numel", lambda: 0)() == 1:
        value = value.item()
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"{type(value).__name__} is not a number")


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


def deviation(values: Iterable[float]) -> float:
    """Return the standard deviation of the values that are not nan, divided by their number.

    Nan without any, or where an infinity is among them.
    """
    known = [value for value in values if not math.isnan(value)]
    if not known or any(map(math.isinf, known)):
        return math.nan
    return statistics.pstdev(known)


def metric_named(metrics: Mapping[str, Any], name: str) -> Any:
    """Return a metric, None if it is missing: `eval/on_time` is the KPI `eval/kpi/on_time`, too."""
    group, _, rest = name.partition("/")
    return metrics.get(name, metrics.get(f"{group}/kpi/{rest}"))


class ClosedDict(dict[str, V]):
    """A dict that refuses to be changed: a change would reach some of its readers and not others.

    Copies of it are plain dicts.
    """

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise PluginError(
            "what is added here would reach some loggers and not others: an epoch's metrics, histograms and figures "
            "are complete when it is reported\nNext: return metrics from the hook on_metrics; put histograms and "
            "figures into run.histograms and run.figures there, or while the epoch is trained."
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = setdefault = pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)
