"""Prioritised level replay: levels are played again where there is most to learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, PositiveFloat

from maze_core import PluginConfig
from maze_core.base.saved_state import Count, Number, OrNone, StateError, varies
from maze_core.envs.parameters import PARAMETERS
from maze_curricula.outcomes import outcome
from maze_curricula.space import Share, Space
from maze_curricula.teacher import Teacher

if TYPE_CHECKING:
    from maze_core.envs.vector import Episode


class PlrConfig(PluginConfig):
    """How levels are chosen."""

    levels: Annotated[int, Field(gt=0, le=100_000)] = 200
    """Levels that are drawn at the start and told apart: parameters, among them `seed` for levels made from seeds."""
    metric: str = "return"
    """Of an episode, by which its score is computed: `return`, `length`, or one that the environment reports."""
    replay: Share = 0.5
    """The share of episodes on levels that were played before, while there are others."""
    temperature: PositiveFloat = 0.1
    """Less: the levels of the highest scores alone are played again."""
    staleness: Share = 0.1
    """The share of the probability that goes to levels that were not played for long."""


class Plr(Teacher):
    """Play levels again by the rank of their learning progress, mixed with those that were not played for long.

    The score of a level is the change of the metric between its last two episodes: the paper's, the mean error of the
    value function, needs more than a finished episode tells.

    Source: Jiang et al., 2021, "Prioritized Level Replay", https://arxiv.org/abs/2010.03934, equations 3 to 5
    """

    Config: ClassVar[type[PluginConfig]] = PlrConfig
    config: PlrConfig

    def setup(self, space: Space, rng: np.random.Generator) -> None:
        """Draw the levels; equal ones count once."""
        super().setup(space, rng)
        drawn = [space.sample(rng) for _ in range(self.config.levels)]
        self._take(list({tuple(each.items()): each for each in drawn}.values()))
        self._clock = 0

    def _take(self, levels: list[dict[str, Any]]) -> None:
        self._levels = levels
        self._number = {tuple(each.items()): number for number, each in enumerate(levels)}
        self._last: list[float | None] = [None] * len(levels)
        """The metric in the last episode of each level; None: it was not played."""
        self._scores = [0.0] * len(levels)
        self._played = [0] * len(levels)
        """The count of episodes at which each level was played last."""

    def next(self, count: int) -> list[dict[str, Any]]:
        """Choose so many: new levels, and earlier ones by their priority."""
        new = [number for number, last in enumerate(self._last) if last is None]
        seen = [number for number, last in enumerate(self._last) if last is not None]
        chosen = []
        for _ in range(count):
            again = seen and (not new or self.rng.random() < self.config.replay)
            if again:
                ages = np.array([self._clock - self._played[each] for each in seen], float)
                p = priorities(np.array([self._scores[each] for each in seen]), ages, self.config)
                chosen.append(seen[int(self.rng.choice(len(seen), p=p))])
            else:
                chosen.append(
                    new.pop(int(self.rng.integers(len(new)))) if new else int(self.rng.integers(len(self._levels)))
                )
        return [dict(self._levels[each]) for each in chosen]

    def see(self, episodes: Sequence[Episode], metrics: Mapping[str, float]) -> None:
        """Score the levels that were played."""
        for episode in episodes:
            number = self._number.get(tuple((episode.parameters or {}).items()))
            if number is None:
                continue
            value, last = outcome(episode, self.config.metric), self._last[number]
            self._clock += 1
            self._scores[number] = abs(value if last is None else value - last)
            self._last[number], self._played[number] = value, self._clock

    def metrics(self) -> dict[str, float]:
        """Return the share of the levels that were played."""
        return {"levels_played": sum(last is not None for last in self._last) / len(self._last)}

    def state(self) -> dict[str, Any]:
        """Return the levels with their scores."""
        count = len(self._levels)
        return {
            "levels": varies([dict(each) for each in self._levels], PARAMETERS),
            "last": varies(list(self._last), [OrNone(Number())] * count),
            "scores": varies(list(self._scores), [Number(0)] * count),
            "played": varies(list(self._played), [Count()] * count),
            "clock": varies(self._clock, Count()),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        if len(state["levels"]) != len(state["scores"]):
            raise StateError(f"there are {len(state['levels'])} levels, and {len(state['scores'])} scores")
        for each in state["levels"]:
            self.space.check(each, "the saved run")
        self._take([dict(each) for each in state["levels"]])
        self._last, self._scores, self._played = list(state["last"]), list(state["scores"]), list(state["played"])
        self._clock = state["clock"]


def priorities(scores: np.ndarray, ages: np.ndarray, config: PlrConfig) -> np.ndarray:
    """Return the probabilities of levels by their scores and ages, both [L].

    `(1 - staleness) * rank ** (-1 / temperature)`, normalised, plus `staleness * age`, normalised; the rank of the
    highest score is 1.
    """
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    weights = ranks ** (-1.0 / config.temperature)
    by_score: np.ndarray = weights / weights.sum()
    if not ages.sum():
        return by_score
    mixed: np.ndarray = (1 - config.staleness) * by_score + config.staleness * ages / ages.sum()
    return mixed
