"""Lessons in a fixed order, each until a metric has passed its threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import PositiveInt, model_validator

from maze_core import ConfigError, PluginConfig, RunError
from maze_core.base.saved_state import Count, varies
from maze_core.plugins.config.base import ConfigModel
from maze_core.plugins.config.external_fields import Outside
from maze_curricula.space import Space, space_of
from maze_curricula.teacher import Teacher

if TYPE_CHECKING:
    import numpy as np

    from maze_core.envs.vector import Episode

_WHERE = "callbacks.curriculum.teacher.lessons"


class Lesson(ConfigModel):
    """One lesson."""

    parameters: dict[str, Any]
    """Ranges or single values of the parameters in this lesson; others have their whole range."""
    metric: str = "train/return_mean"
    """The metric of an epoch that ends the lesson: any that is logged, such as `train/success` or
    `eval/return_mean`."""
    at_least: float | None = None
    """Ends the lesson where the metric is at least this."""
    at_most: float | None = None
    """Ends it where the metric is at most this."""
    episodes: PositiveInt = 100
    """Episodes that have to end in the lesson before."""


class LessonsConfig(PluginConfig):
    """The lessons."""

    lessons: Annotated[tuple[Lesson, ...], Outside.ARGUMENTS]
    """In their order. The last one needs no threshold: it lasts to the end."""

    @model_validator(mode="after")
    def _check(self) -> LessonsConfig:
        if not self.lessons:
            raise ValueError("there are no lessons")
        for number, lesson in enumerate(self.lessons[:-1]):
            if lesson.at_least is None and lesson.at_most is None:
                raise ValueError(f"lesson {number} never ends: give it at_least or at_most")
        return self


class Lessons(Teacher):
    """Go from lesson to lesson, as each one's metric passes its threshold; within a lesson draw uniformly."""

    Config: ClassVar[type[PluginConfig]] = LessonsConfig
    config: LessonsConfig

    def setup(self, space: Space, rng: np.random.Generator) -> None:
        """Read the ranges of the lessons."""
        super().setup(space, rng)
        self._number, self._episodes = 0, 0
        self._came = 0
        """1 once the metric of the lesson has come."""
        self._spaces = [self._space_of(lesson) for lesson in self.config.lessons]

    def _space_of(self, lesson: Lesson) -> Space:
        if unknown := lesson.parameters.keys() - self.space.ranges.keys():
            known = ", ".join(self.space.ranges)
            raise ConfigError(f"there is no parameter {min(unknown)!r}, but {known}", _WHERE)
        given = {
            name: value if isinstance(value, list | tuple | Mapping) else {"choices": [value]}
            for name, value in lesson.parameters.items()
        }
        narrowed = space_of(given, {}) if given else self.space
        for values in narrowed.ends():
            self.space.check({**next(iter(self.space.ends())), **values}, "a lesson")
        return Space({**self.space.ranges, **narrowed.ranges})

    def next(self, count: int) -> list[dict[str, Any]]:
        """Draw from the ranges of the lesson."""
        return [self._spaces[self._number].sample(self.rng) for _ in range(count)]

    def see(self, episodes: Sequence[Episode], metrics: Mapping[str, float]) -> None:
        """Go on to the next lesson where this one is learned."""
        self._episodes += len(episodes)
        lesson = self.config.lessons[self._number]
        last = self._number == len(self._spaces) - 1
        if last or self._episodes < lesson.episodes:
            return
        if lesson.metric not in metrics:
            self._check_comes(lesson.metric, episodes, metrics)
            return
        self._came, value = 1, metrics[lesson.metric]
        enough = lesson.at_least is not None and value >= lesson.at_least
        if enough or (lesson.at_most is not None and value <= lesson.at_most):
            self._number, self._episodes, self._came = self._number + 1, 0, 0

    def _check_comes(self, metric: str, episodes: Sequence[Episode], metrics: Mapping[str, float]) -> None:
        """Raise RunError for a metric that has never come, unless the epoch had no episode that could have had it."""
        evaluated = any(name.startswith("eval/") for name in metrics)
        if self._came or not (evaluated if metric.startswith("eval/") else episodes):
            return
        raise RunError(
            f"{_WHERE}.{self._number}.metric: no epoch has {metric!r}, but {', '.join(sorted(metrics))}\n"
            f"Next: one of these: --set {_WHERE}.{self._number}.metric=train/return_mean"
        )

    def metrics(self) -> dict[str, float]:
        """Return the number of the lesson."""
        return {"lesson": float(self._number)}

    def state(self) -> dict[str, Any]:
        """Return where the lessons are."""
        number = varies(self._number, Count(below=len(self._spaces)))
        came = varies(self._came, Count(below=2))
        return {"lesson": number, "episodes": varies(self._episodes, Count()), "came": came}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._number, self._episodes, self._came = state["lesson"], state["episodes"], state["came"]
