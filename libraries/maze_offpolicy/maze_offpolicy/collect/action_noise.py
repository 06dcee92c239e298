"""Noise on the actions that a policy would take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.spaces import Box

from maze_core import ConfigError
from maze_core.base.tree import stack_trees
from maze_core.collect.agents.agent import Choice, Exploration
from maze_core.envs.spaces import flatten_space, float_bounds
from maze_offpolicy.collect.noise_processes import NoiseProcess, White

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import Tree


class ActionNoise(Exploration):
    """Adds noise to Box actions, and keeps them within their bounds (Fujimoto et al., arXiv 1802.09477, 4.1).

    Args:
        action_space: of a single environment; every leaf is a Box with finite bounds.
        noise: the process that the noise follows, or a random generator, with which it is white.
        std: standard deviation, in half-ranges of each dimension, or what returns that of the moment: of all rows, or
            of each, [N].

    Raises:
        ConfigError: a leaf is no Box, or has no finite bounds.
    """

    def __init__(
        self,
        action_space: Space[Any],
        noise: NoiseProcess | np.random.Generator,
        std: float | Callable[[], float | np.ndarray],
    ) -> None:
        self._process = noise if isinstance(noise, NoiseProcess) else White(noise)
        self._std = std
        self._bounds: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for key, leaf in flatten_space(action_space, "action").items():
            if not isinstance(leaf, Box) or not all(np.isfinite(bound).all() for bound in float_bounds(leaf)):
                raise ConfigError(f"noise needs Box actions with finite bounds, and {key!r} is {leaf}", "env")
            self._bounds[key] = float_bounds(leaf)
        ends = list(accumulate(prod(low.shape) for low, _ in self._bounds.values()))
        # Slices, since `np.split` costs as much as an action of a small policy.
        self._columns = [slice(*pair) for pair in pairwise([0, *ends])]
        self._half_ranges = {key: (high - low) / 2 for key, (low, high) in self._bounds.items()}
        self._size = ends[-1]

    def explore(self, obs: Tree, choice: Choice) -> Choice:
        """Return the actions with noise."""
        return Moved(self._bounds)(choice, self._draw(len(next(iter(choice.actions.values())))))

    @property
    def change(self) -> Moved | None:
        """Adds noise."""
        return Moved(self._bounds)

    def ahead(self, steps: int, rows: int) -> Tree:
        """Draw the noise of the next steps."""
        return stack_trees([self._draw(rows) for _ in range(steps)])

    def _draw(self, rows: int) -> Tree:
        """Return the noise of one step, leaves [rows, …]."""
        drawn = self._process.next(rows, self._size)
        std = self._std() if callable(self._std) else self._std
        pairs = zip(self._half_ranges.items(), self._columns, strict=True)
        if isinstance(std, np.ndarray):
            drawn, std = drawn * std[:, None], 1.0
        return {key: drawn[:, columns].reshape(rows, *half.shape) * (std * half) for (key, half), columns in pairs}

    def state(self) -> dict[str, Any]:
        """Return the state of the process."""
        return self._process.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._process.load_state(state)


@dataclass(frozen=True, slots=True)
class Moved:
    """Adds noise to actions, and keeps them within their bounds."""

    bounds: dict[str, tuple[np.ndarray, np.ndarray]]

    def __call__(self, choice: Choice, drawn: Tree) -> Choice:
        """Return the actions with what was drawn."""
        actions = {
            key: np.clip(leaf + drawn[key], *self.bounds[key]).astype(leaf.dtype)
            for key, leaf in choice.actions.items()
        }
        return Choice(actions, actions)
