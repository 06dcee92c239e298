"""The ranges of the parameters that a teacher chooses from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from maze_environments.parameters import Choice, FloatRange, IntRange, Range
from pydantic import Field

from maze_core import ConfigError
from maze_core.base.seeding import Values
from maze_core.base.terminal_text import shown
from maze_core.envs.parameters import SEED

Share = Annotated[float, Field(ge=0, le=1)]
"""A part of a whole."""
_FORMS = "Such as [3, 20], [0.0, 2.5], or {choices: [ice, sand]}."


@dataclass(frozen=True)
class Space:
    """Ranges by name. A range whose first end is the larger one is easiest there."""

    ranges: Mapping[str, Range]
    """`IntRange`, `FloatRange` or `Choice` of each parameter, in the order in which they are drawn."""

    @property
    def numeric(self) -> tuple[str, ...]:
        """The names of the parameters that are numbers."""
        return tuple(name for name, each in self.ranges.items() if not isinstance(each, Choice))

    def sample(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draw parameters, each uniformly and apart from the others."""
        return {name: _drawn(each, rng) for name, each in self.ranges.items()}

    def at(self, unit: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
        """Return the parameters at a point of the unit cube, [P] of the numeric ones; the others are drawn."""
        given = dict(zip(self.numeric, unit.tolist(), strict=True))
        return {
            name: _drawn(each, rng) if isinstance(each, Choice) else _at(each, given[name])
            for name, each in self.ranges.items()
        }

    def unit(self, values: Values) -> np.ndarray:
        """Return the numeric parameters as a point of the unit cube, [P]."""
        return np.array([_share(self.ranges[name], values[name]) for name in self.numeric])

    def ends(self) -> Iterator[dict[str, Any]]:
        """Yield the parameters at their first ends, at their last ends, and each choice."""
        yield {name: _named(each)[0] for name, each in self.ranges.items()}
        yield {name: _named(each)[-1] for name, each in self.ranges.items()}
        first = {name: _named(each)[0] for name, each in self.ranges.items()}
        for name, each in self.ranges.items():
            if isinstance(each, Choice):
                yield from ({**first, name: value} for value in each.values[1:-1])

    def check(self, values: Any, whose: str) -> None:
        """Raise ConfigError for parameters with other names, or beyond their ranges."""
        if not isinstance(values, Mapping) or set(values) != set(self.ranges):
            names = ", ".join(map(str, values)) if isinstance(values, Mapping) else shown(values)
            raise ConfigError(f"{whose} chose parameters of {names}, instead of {', '.join(self.ranges)}", _WHERE)
        for name, value in values.items():
            if not _within(self.ranges[name], value):
                said = f"{whose} chose {name}={shown(value)}, beyond {_said(self.ranges[name])}"
                plain = "Next: convert numbers of numpy, by int(…) or float(…)"
                raise ConfigError(said, _WHERE, plain if isinstance(value, np.generic) else None)


_WHERE = "callbacks.curriculum.teacher"


def space_of(given: Mapping[str, Any], declared: Mapping[str, Range]) -> Space:
    """Return the space that a user asks for; empty: what the environment declares.

    Raises:
        ConfigError: there is neither, or a range is none, or beyond the declared one.
    """
    ranges = {name: _range(name, value) for name, value in given.items()} or dict(declared)
    if not ranges:
        raise ConfigError(
            "is empty, and the environment declares no parameters",
            "callbacks.curriculum.parameters",
            "Name arguments of its constructor, such as --set callbacks.curriculum.parameters.size=[3,20], or seed, "
            "where levels are made from seeds.",
        )
    for name, given_range in ranges.items():
        for value in _named(given_range):
            check_declared({name: value}, declared, "callbacks.curriculum.parameters")
    return Space(ranges)


def check_declared(values: Values, declared: Mapping[str, Range], where: str) -> None:
    """Raise ConfigError for a value that is beyond what the environment declares; `where`: the path of all values."""
    for name, value in values.items():
        if name in declared and not _within(declared[name], value):
            raise ConfigError(
                f"{shown(value)} is beyond what the environment declares, {_said(declared[name])}", f"{where}.{name}"
            )


def _range(name: str, value: Any) -> Range:
    where = f"callbacks.curriculum.parameters.{name}"
    found = _read(value, where)
    if name == SEED and not all(type(each) is int and 0 <= each < 2**31 for each in _named(found)):
        raise ConfigError(f"{shown(value)} are no seeds", where, "Integers from 0 to 2147483647, such as [0, 199].")
    return found


def _read(value: Any, where: str) -> Range:
    if isinstance(value, Mapping) and set(value) == {"choices"} and isinstance(value["choices"], list | tuple):
        choices = tuple(value["choices"])
        if choices and all(isinstance(each, bool | int | float | str) for each in choices):
            return Choice(choices)
    numbers = isinstance(value, list | tuple) and len(value) == 2 and all(_is_number(each) for each in value)
    if not numbers or value[0] == value[1]:
        raise ConfigError(f"{shown(value)} is no range", where, _FORMS)
    if all(isinstance(each, int) for each in value):
        return IntRange(*value)
    return FloatRange(*map(float, value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _drawn(each: Range, rng: np.random.Generator) -> Any:
    if isinstance(each, Choice):
        return each.values[int(rng.integers(len(each.values)))]
    if isinstance(each, IntRange):
        return int(rng.integers(min(each.low, each.high), max(each.low, each.high) + 1))
    return float(rng.uniform(min(each.low, each.high), max(each.low, each.high)))


def _at(each: IntRange | FloatRange, share: float) -> Any:
    """Return the value at a share of the way from the first end to the last; integers have equal parts of it."""
    share = min(1.0, max(0.0, share))
    if isinstance(each, FloatRange):
        low, high = sorted((each.low, each.high))
        return float(min(high, max(low, each.low + share * (each.high - each.low))))  # rounding may lead beyond
    count = abs(each.high - each.low) + 1
    step = min(count - 1, int(share * count))
    return each.low + (step if each.high > each.low else -step)


def _share(each: Range, value: Any) -> float:
    if isinstance(each, Choice):
        raise TypeError("a choice is no number")
    if isinstance(each, FloatRange):
        return float((value - each.low) / (each.high - each.low))
    return float((abs(value - each.low) + 0.5) / (abs(each.high - each.low) + 1))


def _named(each: Range) -> tuple[Any, ...]:
    """Return the values that a range names: its ends, or all choices."""
    return each.values if isinstance(each, Choice) else (each.low, each.high)


def _within(each: Range, value: Any) -> bool:
    if isinstance(each, Choice):
        return any(value == known and type(value) is type(known) for known in each.values)
    low, high = sorted((each.low, each.high))
    kinds = int if isinstance(each, IntRange) else int | float
    return isinstance(value, kinds) and not isinstance(value, bool) and low <= value <= high


def _said(each: Range) -> str:
    return f"one of {list(each.values)}" if isinstance(each, Choice) else f"{each.low} to {each.high}"
