"""Exploration of discrete choices: with a probability, a random action is taken instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from maze_core import PluginConfig
from maze_core.base.seeding import load_random_states, random_states
from maze_core.collect.agents.agent import Change, Choice, Exploration
from maze_core.collect.policies.random import RandomPolicy
from maze_core.envs.masks import mask_leaves
from maze_core.envs.spaces import allocate, space_specs

if TYPE_CHECKING:
    from typing import Any

    from gymnasium import Space

    from maze_core.base.tree import Tree


class EpsilonGreedy(Exploration):
    """With a probability, takes a random action instead, of those that the masks allow.

    Args:
        observation_space: of a single environment; it holds the masks.
        action_space: of a single environment.
        rngs: a random generator for each of the N rows.
        epsilon: returns the probability of the moment, for all rows or for each, [N].
        later: returns the probability after so many further environment steps; with None workers cannot collect.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        rngs: Sequence[np.random.Generator],
        epsilon: Callable[[], float | np.ndarray],
        later: Callable[[int], float] | None = None,
    ) -> None:
        self._random = RandomPolicy(PluginConfig())
        self._random.setup(observation_space, action_space)
        self._specs = space_specs(action_space, "action")
        self._masked = bool(mask_leaves(observation_space, action_space))
        self._rngs, self._epsilon, self._later = rngs, epsilon, later

    def explore(self, obs: Tree, choice: Choice) -> Choice:
        """Return the actions, those of some rows exchanged."""
        exchanged = self._exchanged(self._epsilon())
        if not exchanged.any():
            return choice
        return _exchange(choice, {**self._random.act(obs, self._rngs), _EXCHANGED: exchanged})

    @property
    def change(self) -> Change | None:
        """Exchanges actions; None if masks decide what is drawn."""
        return None if self._masked or self._later is None else _exchange

    def ahead(self, steps: int, rows: int) -> Tree:
        """Draw which rows are exchanged in the next steps, and for what."""
        if self._later is None:
            return super().ahead(steps, rows)
        drawn = allocate(self._specs, (steps, rows))
        all_exchanged = np.zeros((steps, rows), np.bool_)
        for t, exchanged in enumerate(all_exchanged):
            exchanged[:] = self._exchanged(self._later(t * rows))
            if exchanged.any():
                for key, leaf in self._random.act({}, self._rngs).items():
                    drawn[key][t] = leaf
        return {**drawn, _EXCHANGED: all_exchanged}

    def _exchanged(self, epsilon: float | np.ndarray) -> np.ndarray:
        """Return the rows in which a random action is taken, [N]."""
        exchanged: np.ndarray = np.array([rng.random() for rng in self._rngs]) < epsilon
        return exchanged

    def state(self) -> dict[str, Any]:
        """Return the random states."""
        return {"rngs": random_states(self._rngs)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        load_random_states(self._rngs, state["rngs"])


_EXCHANGED = "#exchanged"
"""Where the drawn numbers say which rows are exchanged, [N]."""


def _exchange(choice: Choice, drawn: Tree) -> Choice:
    """Exchange the actions of some rows for those that were drawn."""
    rows = drawn[_EXCHANGED]
    if not rows.any():
        return choice
    actions = {key: np.where(_along(rows, leaf), drawn[key], leaf) for key, leaf in choice.actions.items()}
    return Choice(actions, actions)


def _along(rows: np.ndarray, leaf: np.ndarray) -> np.ndarray:
    """[N] as an array that broadcasts with [N, …]."""
    return rows.reshape(len(rows), *[1] * (leaf.ndim - 1))
