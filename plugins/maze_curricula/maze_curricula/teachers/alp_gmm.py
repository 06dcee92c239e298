"""Absolute learning progress: play where the return changes most, whichever way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import PositiveInt

from maze_core import ConfigError, PluginConfig
from maze_core.base.saved_state import Array, Count, varies
from maze_curricula.mixture import Mixture, best_mixture
from maze_curricula.outcomes import outcome
from maze_curricula.space import Share, Space
from maze_curricula.teacher import Teacher

if TYPE_CHECKING:
    from maze_core.envs.vector import Episode


class AlpGmmConfig(PluginConfig):
    """How learning progress is measured and followed."""

    metric: str = "return"
    """Of an episode, whose progress counts: `return`, `length`, or one that the environment reports."""
    random: Share = 0.2
    """The share of parameters that are drawn uniformly."""
    every: PositiveInt = 250
    """Episodes between two fits of the mixture, and before the first one."""
    components: PositiveInt = 10
    """The most components of the mixture; Akaike's criterion chooses among 2 to so many."""


class AlpGmm(Teacher):
    """Choose parameters where the absolute learning progress is high, by a mixture of Gaussians.

    An episode's progress is the difference of its metric to that of the earlier episode with the nearest parameters.
    The mixture is fitted to parameters and progress of the last episodes; a component is chosen in proportion to its
    mean progress.

    Source: Portelas et al., 2019, "Teacher algorithms for curriculum learning of Deep RL in continuously parameterized
    environments", https://arxiv.org/abs/1910.07224, algorithm 1
    """

    Config: ClassVar[type[PluginConfig]] = AlpGmmConfig
    config: AlpGmmConfig

    def setup(self, space: Space, rng: np.random.Generator) -> None:
        """Begin without a mixture."""
        super().setup(space, rng)
        if not space.numeric:
            raise ConfigError("alp_gmm needs a parameter that is a number", "callbacks.curriculum.parameters")
        self._history = np.zeros((0, len(space.numeric) + 2))
        """Parameters, metric and progress of all episodes, [E, P + 2]."""
        self._fitted = 0
        """Episodes in the history at the last fit."""
        self._mixture: Mixture | None = None

    def next(self, count: int) -> list[dict[str, Any]]:
        """Draw from the mixture, and some uniformly."""
        return [self.space.at(self._point(), self.rng) for _ in range(count)]

    def _point(self) -> np.ndarray:
        size = len(self.space.numeric)
        if self._mixture is None or self.rng.random() < self.config.random:
            return self.rng.random(size)
        progress = np.clip(self._mixture.means[:, -1], 0, None)
        p = progress / progress.sum() if progress.sum() else None
        component = int(self.rng.choice(len(progress), p=p))
        covariance = self._mixture.covariances[component, :size, :size]
        drawn = self.rng.multivariate_normal(self._mixture.means[component, :size], covariance, method="cholesky")
        return np.clip(drawn, 0, 1)

    def see(self, episodes: Sequence[Episode], metrics: Mapping[str, float]) -> None:
        """Measure the progress of the episodes, and fit the mixture anew where it is due."""
        known = len(self._history)
        history = np.vstack([self._history, np.zeros((len(episodes), self._history.shape[1]))])
        for number, episode in enumerate(episodes, known):
            point, value = self.space.unit(episode.parameters or {}), outcome(episode, self.config.metric)
            progress = 0.0
            if number:
                nearest = int(((history[:number, :-2] - point) ** 2).sum(1).argmin())
                progress = abs(value - float(history[nearest, -2]))
            history[number] = [*point, value, progress]
        self._history = history
        if len(self._history) - self._fitted >= self.config.every:
            self._fitted = len(self._history)
            self._fit()

    def _fit(self) -> None:
        recent = self._history[self._fitted - self.config.every : self._fitted]
        progress = recent[:, -1:]
        spread = float(np.ptp(self._history[: self._fitted, -2])) or 1.0
        rows = np.hstack([recent[:, :-2], progress / spread])  # as large as the parameters, which are in 0..1
        seed = np.random.default_rng(self._fitted)
        self._mixture = best_mixture(rows, range(2, self.config.components + 1), seed)

    def metrics(self) -> dict[str, float]:
        """Return the mean progress of the last episodes."""
        recent = self._history[-self.config.every :, -1]
        return {"learning_progress": float(recent.mean())} if len(recent) else {}

    def state(self) -> dict[str, Any]:
        """Return the episodes; the mixture follows from them."""
        form = Array(np.dtype(np.float64), (None, len(self.space.numeric) + 2))
        return {"history": varies(self._history.copy(), form), "fitted": varies(self._fitted, Count())}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._history, self._fitted = np.array(state["history"], float), min(state["fitted"], len(state["history"]))
        self._mixture = None
        if self._fitted >= self.config.every:
            self._fit()
