"""The Lagrange multiplier of a limit."""

from __future__ import annotations

from math import sqrt

from maze_core import Count, varies
from maze_core.base.saved_state import Number

_FIRST, _SECOND, _EPS = 0.9, 0.999, 1e-8


class Multiplier:
    """A number that rises while a limit is exceeded, and falls to 0 while it is not.

    Adam moves it up the gradient, which is what the limit is exceeded by. So its pace does not depend on the unit of
    costs.

    Args:
        value: at the beginning.
        lr: about its change in a step.
    """

    def __init__(self, value: float, lr: float) -> None:
        self.value, self._lr = value, lr
        self._steps, self._mean, self._square = 0, 0.0, 0.0

    def step(self, excess: float) -> None:
        """Take a step; `excess`: by how much the limit is exceeded, negative below it."""
        self._steps += 1
        self._mean += (1 - _FIRST) * (excess - self._mean)
        self._square += (1 - _SECOND) * (excess * excess - self._square)
        mean, square = self._mean / (1 - _FIRST**self._steps), self._square / (1 - _SECOND**self._steps)
        self.value = max(0.0, self.value + self._lr * mean / (sqrt(square) + _EPS))

    def state(self) -> dict[str, float]:
        """Return its value and what Adam remembers."""
        return {
            "value": varies(self.value, Number(0.0)),
            "steps": varies(self._steps, Count()),
            "mean": varies(self._mean, Number()),
            "square": varies(self._square, Number(0.0)),
        }

    def load_state(self, state: dict[str, float]) -> None:
        """Restore the result of `state()`."""
        self.value, self._steps = state["value"], int(state["steps"])
        self._mean, self._square = state["mean"], state["square"]
