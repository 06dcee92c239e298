"""One number for the difficulty, which follows the rate of success."""

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


class SuccessConfig(PluginConfig):
    """When it becomes harder or easier."""

    metric: str = "success"
    """Of an episode: `success`, another that the environment reports, `return` or `length`."""
    threshold: float = 0.5
    """An episode succeeds where its metric is at least this."""
    low: Share = 0.5
    """Below this rate of success it becomes easier."""
    high: Share = 0.8
    """Above this rate it becomes harder."""
    step: Annotated[float, Field(gt=0, le=1)] = 0.05
    """By so much, where 1 is the whole range."""
    episodes: PositiveInt = 50
    """Episodes of the rate, which begins anew after each change."""
    start: Share = 0.0
    """The difficulty at first."""

    @model_validator(mode="after")
    def _check(self) -> SuccessConfig:
        if self.low >= self.high:
            raise ValueError(f"low is {self.low}, and has to be less than high, {self.high}")
        return self


class Success(Teacher):
    """Keep the rate of success between two bounds: the ranges open from their first ends as the agent succeeds.

    Half of the episodes have the current difficulty, the others an easier one, so that nothing is forgotten.
    """

    Config: ClassVar[type[PluginConfig]] = SuccessConfig
    config: SuccessConfig

    def setup(self, space: Space, rng: np.random.Generator) -> None:
        """Begin at the first ends of the ranges."""
        super().setup(space, rng)
        if not space.numeric:
            raise ConfigError("success needs a parameter that is a number", "callbacks.curriculum.parameters")
        self._difficulty, self._recent = self.config.start, list[float]()

    def next(self, count: int) -> list[dict[str, Any]]:
        """Draw the difficulty of each."""
        shares = np.where(self.rng.random(count) < 0.5, 1.0, self.rng.random(count)) * self._difficulty
        return [self.space.at(np.full(len(self.space.numeric), share), self.rng) for share in shares]

    def see(self, episodes: Sequence[Episode], metrics: Mapping[str, float]) -> None:
        """Count successes at about the current difficulty, and change it where the rate leaves the bounds."""
        config = self.config
        for episode in episodes:
            share = float(self.space.unit(episode.parameters or {}).mean())
            if share >= self._difficulty - config.step:
                self._recent.append(float(outcome(episode, config.metric) >= config.threshold))
        if len(self._recent) < config.episodes:
            return
        rate = float(np.mean(self._recent[-config.episodes :]))
        change = config.step if rate > config.high else -config.step if rate < config.low else 0.0
        if change:
            self._difficulty, self._recent = min(1.0, max(0.0, self._difficulty + change)), []
        else:
            self._recent = self._recent[-config.episodes :]

    def metrics(self) -> dict[str, float]:
        """Return the difficulty."""
        return {"difficulty": self._difficulty}

    def state(self) -> dict[str, Any]:
        """Return the difficulty, and the recent successes."""
        return {
            "difficulty": varies(self._difficulty, Number(0, 1)),
            "recent": varies(list(self._recent), Each(Number(0, 1))),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._difficulty, self._recent = state["difficulty"], list(state["recent"])
