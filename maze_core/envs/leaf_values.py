"""What an environment may return for a leaf of its observation, so that storing it changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from maze_core.envs.checks import UnlikeSpaceError
from maze_core.envs.spaces import Leaf, choices_of, leaf_spec, start_of

_FEW = 512
"""Bits up to which Python checks them faster than NumPy."""


class LeafValues:
    """The values of one leaf: their shape, their dtype and their range.

    A value of the declared dtype and shape is stored as it is. Floats of any width may stand for floats, and integers
    for floats; integers and booleans of any width may stand for integers if the values fit. Nothing else is stored:
    no float as an integer, and no value in another shape.
    """

    def __init__(self, leaf: Leaf) -> None:
        space = leaf.space
        self.key, self.path = leaf.key, leaf.path
        self.declared: np.dtype[Any] = np.dtype(space.dtype)
        self.shape: tuple[int, ...] = tuple(space.shape or ())
        self._space, self._stored = space, leaf_spec(space).dtype
        start = start_of(space)
        self._start: Any = 0 if start is None else start
        self.as_is = start is None and not isinstance(space, spaces.Discrete)
        """True where arrays of the declared dtype and shape are stored unchanged."""
        self.numbers = range(int(space.n)) if isinstance(space, spaces.Discrete) else None
        """The stored numbers of a Discrete space."""
        self._known = {self.declared} if self.as_is else set()
        """Dtypes of which every value fits."""
        self._bits = isinstance(space, spaces.MultiBinary)
        self.is_ranged = self._bits or isinstance(space, spaces.MultiDiscrete)
        """True for arrays of whole numbers of which some are not in the space."""
        self._below: Any = choices_of(space)
        """What stored whole numbers stay below."""

    def stored(self, value: Any, batch: tuple[int, ...] = ()) -> Any:
        """Return a value (or a batch of them) as it is stored. The range of a leaf that `is_ranged` is not checked.

        Raises:
            UnlikeSpaceError: its shape or dtype is another one, or the stored dtype cannot hold it.
        """
        if self.numbers is None:
            array = self._array(value, batch)
            return array if self.as_is else np.subtract(array, self._start, dtype=np.int64)
        if batch:
            rows = np.subtract(self._array(value, batch), self._start, dtype=np.int64)
            self.check_range(rows)
            return rows
        whole = isinstance(value, int | np.integer)  # mostly without the calls
        number: int = int(value if whole else self._array(value, ())) - self._start
        if number not in self.numbers:
            raise self._outside(number)
        return number

    def check_range(self, rows: np.ndarray) -> None:
        """Check the range of stored values `[N, …]`.

        Raises:
            UnlikeSpaceError: a value is not in the space.
        """
        if self._bits and rows.size <= _FEW and not rows.tobytes().strip(b"\0\1"):
            return
        inside = (rows >= 0) & (rows < self._below)
        if not inside.all():
            row = int(np.flatnonzero(~inside.reshape(len(rows), -1).all(1))[0])
            raise self._outside(rows[row], row)

    def _array(self, value: Any, batch: tuple[int, ...]) -> np.ndarray:
        """Return a value as an array of the right shape and of a dtype that fits."""
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, RuntimeError):
            raise self.misfit(f"{value!r:.80} is not an array") from None
        shape = (*batch, *self.shape)
        if array.shape != shape:
            raise self.misfit(f"shape {shape} is declared, the value has shape {array.shape}")
        if array.dtype not in self._known:
            self._admit(array)
        return array

    def misfit(self, problem: str, row: int = 0) -> UnlikeSpaceError:
        """Return the error for a value that cannot be stored unchanged."""
        return UnlikeSpaceError(self.key, problem, row)

    def _admit(self, array: np.ndarray) -> None:
        """Refuse values of this dtype unless they are stored unchanged; remember a dtype of which all are."""
        kind, given = self.declared.kind, array.dtype
        if kind == "f":
            if not np.can_cast(given, self.declared, "same_kind"):
                raise self._other_dtype(given)
            self._known.add(given)
        elif given.kind not in "iub":
            raise self._other_dtype(given)
        elif np.can_cast(given, self._stored, "safe"):
            self._known.add(given)
        elif (changed := array.astype(self._stored) != array).any():
            place = int(np.flatnonzero(changed)[0])
            row = place * len(array) // array.size if array.ndim > len(self.shape) else 0
            value = array.reshape(-1)[place]
            raise self.misfit(f"dtype {self.declared} is declared, which cannot hold {value}", row)

    def _outside(self, value: Any, row: int = 0) -> UnlikeSpaceError:
        return self.misfit(f"{self._space} is declared, the value is {value + self._start!s:.80}", row)

    def _other_dtype(self, given: np.dtype[Any]) -> UnlikeSpaceError:
        declared = f"dtype {self.declared} is" if isinstance(self._space, spaces.Box) else "integers are"
        return self.misfit(f"{declared} declared, the value has dtype {given}")
