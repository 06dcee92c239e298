"""What a saved state has to look like before it is restored: somebody may have changed it.

What an object's `state()` returns when it has just been built is the form of what it is given back: the same keys,
lists as long, arrays and tensors of the same shapes and types. Where this varies, `state()` declares it in place:

    return {"steps": varies(self.steps, Count()), "seen": varies(self.seen, Each(Number()))}

Empty lists, mappings and arrays, and None, say nothing: what is saved in their place may be anything of their kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from maze_core.base.errors import CheckpointError
from maze_core.base.terminal_text import printable

_LARGEST = 2**53
"""Counts are less: 64 bits hold sums of them, and every reader of JSON takes them exactly."""
_DECLARING: ContextVar[bool] = ContextVar("declaring", default=False)

V = TypeVar("V")


class StateError(CheckpointError):
    """A saved value is not what the object can take: the message says where it is, and what was expected."""


class Form(Protocol):
    """What a saved value has to be."""

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if a value is something else."""


def varies(value: V, form: Any) -> V:
    """Return the value, of which not only the numbers may change; inside `form_of`, its form, or what this returns."""
    if not _DECLARING.get():
        return value
    return cast("V", form() if callable(form) else form)


def form_of(state: Callable[[], Any]) -> Any:
    """Return the form of what `state` returns. To be called before anything is restored."""
    with _declaring():
        return state()


@contextmanager
def _declaring() -> Iterator[None]:
    token = _DECLARING.set(True)
    try:
        yield
    finally:
        _DECLARING.reset(token)


def check_state(saved: Any, form: Any, place: str = "") -> None:
    """Raise StateError if a saved state differs from its form: the result of `form_of`, or a part of it.

    Keys beyond those of the form are not read, so they are not looked at, but trees of arrays have no others.
    """
    if hasattr(form, "check"):
        form.check(saved, place)
    elif isinstance(form, Mapping):
        _expect(isinstance(saved, Mapping), place, "a mapping", saved)
        for key, each in form.items():
            if key in saved:
                check_state(saved[key], each, f"{place}/{key}" if place else str(key))
            elif not isinstance(each, OrLeftOut):
                raise refused(place, f"a mapping with {str(key)!r}", "lacks it")
        others = saved.keys() - form.keys()
        if form and others and all(hasattr(each, "dtype") for each in form.values()):
            raise refused(place, f"a mapping with {len(form)} leaves", f"has {min(map(str, others))!r}, too")
    elif isinstance(form, list | tuple):
        fits = isinstance(saved, list | tuple) and len(saved) == (len(form) or len(saved))
        _expect(fits, place, f"a list of {len(form)}" if form else "a list", saved)
        for number, each in enumerate(form):
            check_state(saved[number], each, f"{place}/{number}")
    elif hasattr(form, "dtype"):
        shape = tuple(form.shape) if math.prod(form.shape) else (None, *form.shape[1:])
        Array(form.dtype, shape, finite=_is_finite(form)).check(saved, place)
    elif isinstance(form, bool | str):
        (Bool() if isinstance(form, bool) else Text()).check(saved, place)
    elif isinstance(form, int | float):
        Number(finite=math.isfinite(form)).check(saved, place)


@dataclass(frozen=True)
class Count:
    """An integer from `least`, and less than `below`."""

    least: int = 0
    below: int = _LARGEST

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if it is something else."""
        upto = "" if self.below == _LARGEST else f" and below {self.below}"
        fits = type(saved) is int and self.least <= saved < self.below
        _expect(fits, place, f"an integer from {self.least}{upto}", saved)


@dataclass(frozen=True)
class Number:
    """A number in bounds; `finite=False`: it may also be nan or infinite."""

    low: float = -1e308
    high: float = 1e308
    finite: bool = True

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if it is something else."""
        is_number = isinstance(saved, int | float) and not isinstance(saved, bool)
        low = "" if self.low == Number.low else f" from {self.low:g}"
        fits = is_number and (self.low <= saved <= self.high or (not self.finite and not math.isfinite(saved)))
        _expect(fits, place, f"a number{low}{'' if self.high == Number.high else f' to {self.high:g}'}", saved)


@dataclass(frozen=True)
class Bool:
    """True or false."""

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if it is something else."""
        _expect(isinstance(saved, bool), place, "true or false", saved)


@dataclass(frozen=True)
class Text:
    """A text, one of `choices` where there are some."""

    choices: tuple[str, ...] = ()

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if it is something else."""
        fits = isinstance(saved, str) and (not self.choices or saved in self.choices)
        _expect(fits, place, " or ".join(map(repr, self.choices)) or "a text", saved)


@dataclass(frozen=True)
class Array:
    """An array or a tensor, as its type of numbers says. None in the shape: any number of rows there.

    `low` and `below` bound its values, as numbers or as what has its shape; nan is in no bounds.
    """

    dtype: Any
    shape: tuple[int | None, ...]
    low: Any = None
    below: Any = None
    finite: bool = True

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if it is something else."""
        sizes = ", ".join("any" if size is None else str(size) for size in self.shape)
        found = getattr(saved, "shape", ())
        fits = getattr(saved, "dtype", None) == self.dtype and len(found) == len(self.shape)
        fits = fits and all(want in (None, size) for want, size in zip(self.shape, found, strict=True))
        _expect(fits, place, f"numbers of {self.dtype} with shape ({sizes})", saved)
        within = (self.low is None or bool((saved >= self.low).all())) and (
            self.below is None or bool((saved < self.below).all())
        )
        if not within or (self.finite and not _is_finite(saved)):
            low = "" if self.low is None else f" from {self.low}"
            bounds = low if self.below is None else f"{low} to below {self.below}"
            raise refused(place, f"finite numbers{bounds}", "has others")


@dataclass(frozen=True)
class OrNone:
    """A value of a form, or None."""

    form: Any

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if it is something else."""
        if saved is not None:
            check_state(saved, self.form, place)


@dataclass(frozen=True)
class OrEmpty:
    """A value of a form, or an empty mapping or list."""

    form: Any

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if it is something else."""
        if not isinstance(saved, Mapping | list | tuple) or saved:
            check_state(saved, self.form, place)


@dataclass(frozen=True)
class OrLeftOut:
    """A value of a form in a mapping that may lack its key: a run with other settings did not save it."""

    form: Any

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if it is something else."""
        check_state(saved, self.form, place)


@dataclass(frozen=True)
class Exactly:
    """This value alone."""

    value: Any

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if it is something else."""
        _expect(type(saved) is type(self.value) and saved == self.value, place, f"{self.value!r:.60}", saved)


@dataclass(frozen=True)
class Anything:
    """Any value: the object itself looks at it."""

    def check(self, saved: Any, place: str) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Each:
    """A list of any length; `form`: of each of its values."""

    form: Any

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if it is something else."""
        _expect(isinstance(saved, list | tuple), place, "a list", saved)
        for number, each in enumerate(saved):
            check_state(each, self.form, f"{place}/{number}")


@dataclass(frozen=True)
class Entries:
    """A mapping with any keys; `form`: of each of its values, `keys`: of each key."""

    form: Any
    keys: Any = Text()

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if it is something else."""
        _expect(isinstance(saved, Mapping), place, "a mapping", saved)
        for key, each in saved.items():
            check_state(key, self.keys, f"a key of {place}")
            check_state(each, self.form, f"{place}/{key}")


def check_range(values: np.ndarray, low: Any, below: Any, place: str) -> None:
    """Raise StateError if one of the values is less than `low`, or not less than `below`."""
    Array(values.dtype, values.shape, low, below, finite=False).check(values, place)


def refused(place: str, expected: str, found: str) -> StateError:
    """Return the error about a value in some place; `found`: what it is or has instead, with the verb."""
    return StateError(f"{printable(place or 'the state', 300)} should be {expected}, but {printable(found, 200)}")


def _expect(fits: bool, place: str, expected: str, saved: Any) -> None:
    if not fits:
        raise refused(place, expected, f"is {_shown(saved)}")


def _is_finite(leaf: Any) -> bool:
    if not isinstance(leaf, np.ndarray):  # a tensor
        return bool(leaf.isfinite().all())
    return leaf.dtype.kind not in "fc" or bool(np.isfinite(leaf).all())


def _shown(found: Any) -> str:
    if hasattr(found, "dtype"):
        return f"numbers of {found.dtype} with shape {tuple(found.shape)}"
    if isinstance(found, Mapping | list | tuple):
        kind = "a mapping" if isinstance(found, Mapping) else "a list"
        return f"{kind} of {len(found)}"
    return {"None": "null", "True": "true", "False": "false"}.get(repr(found), printable(f"{found!r:.60}"))
