"""The search space of a sweep: for each path of the configuration a list of choices or a range.

1e-4,3e-4,1e-3        a list; each value is YAML
0.9..0.99             a range; of integers if both ends are
1e-5..1e-2:log        the same, uniform in the logarithm
0.9..0.99:4           4 evenly spaced values as a list; also with :log:4
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from maze_core import ConfigError
from maze_core.base.plain_json import is_number
from maze_core.base.terminal_text import printable, shown
from maze_core.plugins.config.plain_yaml import parse_value

Point = dict[str, Any]
"""A value for each path of the space."""

_RANGE = re.compile(r"\s*(?P<low>[^,\[\]{}:]+?)\s*\.\.\s*(?P<high>[^,\[\]{}:]+?)\s*(?P<rest>(?::[^,\[\]{}]*)?)")


_COUNT = re.compile(r"0*([2-9]|[1-9][0-9]{1,4})")
_FARTHEST = 1e300
"""Largest end of a range: the difference of two is a float."""


@dataclass(frozen=True, slots=True)
class Choices:
    """One of several values."""

    values: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        """Return True for one of the values."""
        return any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in self.values)


@dataclass(frozen=True, slots=True)
class Range:
    """A number from `low` to `high`, both included; an integer if `whole`."""

    low: float
    high: float
    log: bool = False
    """True to spread the logarithms of the values evenly instead of the values."""

    @property
    def whole(self) -> bool:
        """True if values are integers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def holds(self, value: Any) -> bool:
        """Return True for a number of the range."""
        return is_number(value) and self.low <= value <= self.high and (not self.whole or isinstance(value, int))

    def at(self, share: float) -> float:
        """Return the value at the fraction `share` of the way from `low` (0) to `high` (1)."""
        if self.log:
            value = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + share * (self.high - self.low)
        return min(max(round(value) if self.whole else _short(value), self.low), self.high)

    def drawn(self, share: float) -> float:
        """Return the value that a number from 0 to 1 stands for, where all such numbers are equally likely.

        Beside `at`, which is for evenly spaced values, the ends of a range of integers are as likely as the others. On
        the logarithmic scale each integer has the part from half below it to half above.
        """
        if not self.whole:
            return self.at(share)
        low, high = self._edges
        value = math.exp(low + share * (high - low)) if self.log else low + share * (high - low)
        return min(max(math.floor(value + 0.5), self.low), self.high)

    def share(self, value: float) -> float:
        """Return where in its range a value is, from 0 to 1: the inverse of `drawn`, up to the part of an integer."""
        low, high = self._edges
        return ((math.log(value) if self.log else value) - low) / (high - low)

    @property
    def _edges(self) -> tuple[float, float]:
        """The ends on its scale, with the whole parts of integers there."""
        margin = 0.5 if self.whole else 0.0
        low, high = float(self.low) - margin, float(self.high) + margin
        return (math.log(low), math.log(high)) if self.log else (low, high)


Dimension = Choices | Range
Space = Mapping[str, Dimension]


def other_paths(point: Mapping[Any, Any], space: Space) -> str:
    """Say which paths a point has, where they are not the space's; empty if they are."""
    if point.keys() == space.keys():
        return ""
    return f"values for {shown(list(point))}, but the search is over {printable(', '.join(space), 200)}"


def outside(point: Point, space: Space) -> str:
    """Say which value of a point is not in the space; empty if all are."""
    strange = (path for path, dimension in space.items() if not dimension.holds(point[path]))
    path = next(strange, None)
    return "" if path is None else f"{path}: {shown(point[path])} is outside of the search space"


def parse_space(over: Mapping[str, Any]) -> dict[str, Dimension]:
    """Return the space described by plain data: lists, or texts in the grammar above.

    Raises:
        ConfigError: a text does not follow the grammar; the message names the path.
    """
    return {path: _dimension(path, values) for path, values in over.items()}


def parse_over(text: str) -> tuple[str, Any]:
    """Return path and values of `path=values`; the values are plain data for `parse_space`."""
    path, equals, values = text.partition("=")
    path, values = path.strip(), values.strip()
    if not equals or not path or not values:
        raise ConfigError(f"{text!r} is not of the form path=values, such as algorithm.lr=1e-4,1e-3", "--over")
    return path, values if _RANGE.fullmatch(values) else _list(path, values)


def _dimension(path: str, values: Any) -> Dimension:
    if isinstance(values, str):
        match = _RANGE.fullmatch(values)
        values = _range(path, match) if match else _list(path, values)
    if isinstance(values, Range):
        return values
    if not isinstance(values, list | tuple) or not values:
        raise ConfigError("must be a list of values or a range such as 1e-5..1e-2:log", f"over.{path}")
    if len({repr(value) for value in values}) < len(values):
        raise ConfigError(f"contains a value twice: {printable(', '.join(map(str, values)), 200)}", f"over.{path}")
    return Choices(tuple(values))


def _list(path: str, text: str) -> list[Any]:
    values = parse_value(f"[{text}]", f"over.{path}")
    return values if isinstance(values, list) else [values]


def _range(path: str, match: re.Match[str]) -> Range | list[Any]:
    where = f"over.{path}"
    low, high = (parse_value(match[end], where) for end in ("low", "high"))
    options = [option.strip() for option in match["rest"].split(":")[1:]]
    log = options[:1] == ["log"]
    counts = options[log:]
    for number in (low, high):
        if not is_number(number) or abs(number) > _FARTHEST:
            raise ConfigError(f"a range needs two numbers, not {shown(number)}; the largest is {_FARTHEST:g}", where)
    if not low < high:
        raise ConfigError(f"the range {low}..{high} must start below its end", where)
    if log and low <= 0:
        raise ConfigError(f"a logarithmic range must start above 0, not at {low}", where)
    if len(counts) > 1 or not all(map(_COUNT.fullmatch, counts)):
        raise ConfigError(
            f"unknown :{printable(':'.join(counts), 80)}; a range may end in :log, in a number of values from 2 to "
            "99999, or both",
            where,
        )
    found = Range(low, high, log)
    if not counts:
        return found
    count = int(counts[0])
    return list(dict.fromkeys(found.at(i / (count - 1)) for i in range(count)))


def _short(value: float) -> float:
    """Round to ten significant digits, which are precise enough and readable."""
    return float(f"{value:.10g}")
