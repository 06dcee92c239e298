"""Numbers that environments report in the `info` of each step, for algorithms that learn from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from maze_core.base.tree import Tree
from maze_core.envs.checks import MisfitError, fits_float32, is_number

CONSTRAINT = "constraint/"
"""Columns of this prefix are those of a constraint: a number of `info`, else a KPI or metric when an episode ends."""


class InfoColumns:
    """The entries of the `info` that an algorithm learns from, of N environments.

    Args:
        names: keys of the `info`; every step has to report a number under each that is not one of a constraint.
        rows: N.
    """

    def __init__(self, names: Sequence[str], rows: int) -> None:
        self.names = tuple(names)
        self._last = {name: np.zeros(rows, np.float32) for name in names}
        self._sums = {name: np.zeros(rows) for name in names}
        """Of the unfinished episodes."""
        self._told: set[str] = set()

    def watched(self, row: int, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a `step` of an environment whose `info` is read; `step` itself where there is nothing to read."""
        if not self.names:
            return step

        def stepped(action: Any) -> Any:
            result = step(action)
            self.read(row, result[4])
            return result

        return stepped

    def read(self, row: int, info: Mapping[str, Any]) -> None:
        """Take the numbers of a step.

        Raises:
            MisfitError: one is missing, or is no finite number.
        """
        for name in self.names:
            key = name.removeprefix(CONSTRAINT)
            if key not in info:
                if key != name:
                    self._last[name][row] = 0
                    continue
                keys = ", ".join(sorted(map(str, info))) or "nothing"
                raise MisfitError(
                    f"an info without {name!r}, which the algorithm learns from: it has {keys}. "
                    f"Next: report a number as info[{name!r}] in every step",
                    row,
                )
            value = info[key]
            if not is_number(value) or not fits_float32(float(value)):
                raise MisfitError(f"an info whose {key!r} is not a finite number: {value!r:.80}", row)
            self._told.add(name)
            self._last[name][row] = value
            self._sums[name][row] += float(value)

    def rest(self, rows: np.ndarray) -> None:
        """Take zeros for rows [N] bool that did not step."""
        for values in self._last.values():
            values[rows] = 0

    def begin(self, rows: Any = slice(None)) -> None:
        """Begin new episodes."""
        for sums in self._sums.values():
            sums[rows] = 0

    def take(self) -> Tree:
        """Return the numbers of the last step, leaves [N] float32 of their own."""
        return {name: values.copy() for name, values in self._last.items()}

    def end(self, row: int, known: Mapping[str, float]) -> dict[str, float]:
        """Return the sums of the episode that has just ended as metrics, such as `cost_return_mean`.

        `known`: metrics of the episode. One that is named by a constraint is what its last step costs.
        """
        ended = {}
        for name, sums in self._sums.items():
            key = name.removeprefix(CONSTRAINT)
            found = None if key == name or name in self._told else known.get(f"kpi/{key}", known.get(key))
            if found is not None:
                self._last[name][row] = sums[row] = found
            if found is not None or name in self._told:
                ended[f"{name}_return_mean" if key == name else name] = float(sums[row])
        self.begin(row)
        return ended
