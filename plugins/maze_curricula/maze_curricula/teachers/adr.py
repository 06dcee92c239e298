"""Automatic domain randomisation: ranges widen where the agent succeeds at their boundaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from maze_core import ConfigError, PluginConfig
from maze_core.base.saved_state import Each, Number, varies
from maze_curricula.outcomes import outcome
from maze_curricula.space import Share, Space
from maze_curricula.teacher import Teacher

if TYPE_CHECKING:
    from maze_core.envs.vector import Episode

_NEAR = 1e-9


class AdrConfig(PluginConfig):
    """When a boundary moves."""

    metric: str = "success"
    """Of an episode, averaged at each boundary: `success`, another that the environment reports, `return` or
    `length`."""
    low: float = 0.5
    """Below this mean a boundary moves inwards."""
    high: float = 0.8
    """Above this mean it moves outwards."""
    step: Annotated[float, Field(gt=0, le=1)] = 0.05
    """By so much, where 1 is the whole range."""
    episodes: PositiveInt = 20
    """Episodes at a boundary for one decision."""
    boundary: Share = 0.5
    """The share of episodes that have one parameter at a boundary."""
    start: Share | dict[str, Share] = 0.0
    """Where each parameter begins, of one or of each: 0 is the first end of its range, 1 the last, 0.5 the middle."""

    @model_validator(mode="after")
    def _check(self) -> AdrConfig:
        if self.low >= self.high:
            raise ValueError(f"low is {self.low}, and has to be less than high, {self.high}")
        return self


class Adr(Teacher):
    """Begin with one value of each parameter, and widen its range at the ends where the agent does well.

    Source: OpenAI et al., 2019, "Solving Rubik's Cube with a Robot Hand", https://arxiv.org/abs/1910.07113, algorithm 1
    """

    Config: ClassVar[type[PluginConfig]] = AdrConfig
    config: AdrConfig

    def setup(self, space: Space, rng: np.random.Generator) -> None:
        """Begin with one value of each parameter."""
        super().setup(space, rng)
        names, start = space.numeric, self.config.start
        if not names:
            raise ConfigError("adr needs a parameter that is a number", "callbacks.curriculum.parameters")
        if isinstance(start, dict) and (wrong := start.keys() ^ set(names)):
            raise ConfigError(
                f"has to name each of {', '.join(names)}, and no others: {min(wrong)}",
                "callbacks.curriculum.teacher.start",
            )
        first = [start[name] if isinstance(start, dict) else start for name in names]
        self._bounds = np.repeat(np.array(first, float)[:, None], 2, 1)
        """The lower and the upper boundary of each parameter in the unit cube, [P, 2]."""
        self._buffers: list[list[float]] = [[] for _ in range(2 * len(names))]
        """The metric in episodes at each boundary."""

    def next(self, count: int) -> list[dict[str, Any]]:
        """Draw from the ranges; some have one parameter at a boundary."""
        return [self.space.at(self._point(), self.rng) for _ in range(count)]

    def _point(self) -> np.ndarray:
        point = self.rng.uniform(self._bounds[:, 0], self._bounds[:, 1])
        if self.rng.random() < self.config.boundary:
            which, end = int(self.rng.integers(len(point))), int(self.rng.integers(2))
            point[which] = self._bounds[which, end]
        return np.asarray(point)

    def see(self, episodes: Sequence[Episode], metrics: Mapping[str, float]) -> None:
        """Move the boundaries at which enough episodes have ended."""
        for episode in episodes:
            for row, column in self._boundaries_of(episode.parameters or {}):
                self._buffers[2 * row + column].append(outcome(episode, self.config.metric))
        for number, buffer in enumerate(self._buffers):
            if len(buffer) >= self.config.episodes:
                self._move(number // 2, number % 2, float(np.mean(buffer)))
                buffer.clear()

    def _boundaries_of(self, values: Mapping[str, Any]) -> list[tuple[int, int]]:
        """Return the boundaries at which an episode was played."""
        ends = [self._bound_values(column) for column in (0, 1)]
        return [
            (row, column)
            for row, name in enumerate(self.space.numeric)
            for column, at in enumerate(ends)
            if abs(float(values[name]) - float(at[name])) <= _NEAR
        ]

    def _bound_values(self, column: int) -> dict[str, Any]:
        """Return the values of the numeric parameters at their lower or upper boundaries."""
        numbers = Space({name: self.space.ranges[name] for name in self.space.numeric})
        return numbers.at(self._bounds[:, column], self.rng)

    def _move(self, row: int, column: int, mean: float) -> None:
        outwards = 1 if column else -1
        step = self.config.step * (outwards if mean > self.config.high else -outwards if mean < self.config.low else 0)
        moved = min(1.0, max(0.0, float(self._bounds[row, column]) + step))
        other = float(self._bounds[row, 1 - column])
        self._bounds[row, column] = max(moved, other) if column else min(moved, other)

    def metrics(self) -> dict[str, float]:
        """Return how much of each range is open."""
        return {f"{name}_open": float(b[1] - b[0]) for name, b in zip(self.space.numeric, self._bounds, strict=True)}

    def state(self) -> dict[str, Any]:
        """Return the boundaries, and the episodes at them."""
        return {
            "bounds": self._bounds.copy(),
            "buffers": varies([list(each) for each in self._buffers], [Each(Number())] * len(self._buffers)),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._bounds = np.sort(np.clip(np.array(state["bounds"], float), 0, 1), 1)
        self._buffers = [list(each) for each in state["buffers"]]
