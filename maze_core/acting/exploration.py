"""Exploration: changing some of an agent's actions, so that it sees more than its policy alone would show."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.spaces import Box

from maze_core.acting.agent import Choice
from maze_core.config.base import PluginConfig
from maze_core.envs.spaces import flatten_space, float_bounds
from maze_core.errors import ConfigError
from maze_core.policies.random import RandomPolicy
from maze_core.seeding import load_random_states, random_states

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.envs.vector import Tree


class Exploration(ABC):
    """Changes the actions that a policy chose for N environments."""

    @abstractmethod
    def explore(self, obs: Tree, choice: Choice) -> Choice:
        """Return the actions to take. `obs`: what `choice` was made from, leaves [N, …]."""

    def state(self) -> dict[str, Any]:
        """Return what decides the next changes, such as random states."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:  # noqa: B027 — the twin of `state`
        """Restore the result of `state()`."""


class EpsilonGreedy(Exploration):
    """With a probability, takes a random action instead, of those that the masks allow.

    Args:
        observation_space: of a single environment; it holds the masks.
        action_space: of a single environment.
        rngs: a random generator for each of the N rows.
        epsilon: returns the probability of the moment.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        rngs: Sequence[np.random.Generator],
        epsilon: Callable[[], float],
    ) -> None:
        self._random = RandomPolicy(PluginConfig())
        self._random.setup(observation_space, action_space)
        self._rngs, self._epsilon = rngs, epsilon

    def explore(self, obs: Tree, choice: Choice) -> Choice:
        """Return the actions, those of some rows exchanged."""
        epsilon = self._epsilon()
        exchanged = np.array([rng.random() < epsilon for rng in self._rngs])
        if not exchanged.any():
            return choice
        drawn = self._random.act(obs, self._rngs)
        actions = {key: np.where(_along(exchanged, leaf), drawn[key], leaf) for key, leaf in choice.actions.items()}
        return Choice(actions, actions)

    def state(self) -> dict[str, Any]:
        """Return the random states."""
        return {"rngs": random_states(self._rngs)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        load_random_states(self._rngs, state["rngs"])


class ActionNoise(Exploration):
    """Adds Gaussian noise to Box actions, and keeps them within their bounds (Fujimoto et al., arXiv 1802.09477, 4.1).

    Args:
        action_space: of a single environment; every leaf is a Box with finite bounds.
        rng: what the noise is drawn with.
        std: standard deviation, in half-ranges of each dimension.

    Raises:
        ConfigError: a leaf is no Box, or has no finite bounds.
    """

    def __init__(self, action_space: Space[Any], rng: np.random.Generator, std: float) -> None:
        self._rng, self._std = rng, std
        self._bounds: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for key, leaf in flatten_space(action_space, "action").items():
            if not isinstance(leaf, Box) or not all(np.isfinite(bound).all() for bound in float_bounds(leaf)):
                raise ConfigError(f"noise needs Box actions with finite bounds, and {key!r} is {leaf}", "env")
            self._bounds[key] = float_bounds(leaf)

    def explore(self, obs: Tree, choice: Choice) -> Choice:
        """Return the actions with noise."""
        actions = {key: self._noisy(leaf, *self._bounds[key]) for key, leaf in choice.actions.items()}
        return Choice(actions, actions)

    def _noisy(self, actions: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        noise = self._rng.standard_normal(actions.shape) * (self._std * (high - low) / 2)
        noisy: np.ndarray = np.clip(actions + noise, low, high).astype(actions.dtype)
        return noisy

    def state(self) -> dict[str, Any]:
        """Return the random state."""
        return {"rng": self._rng.bit_generator.state}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._rng.bit_generator.state = state["rng"]


def _along(rows: np.ndarray, leaf: np.ndarray) -> np.ndarray:
    """[N] as an array that broadcasts with [N, …]."""
    return rows.reshape(len(rows), *[1] * (leaf.ndim - 1))
