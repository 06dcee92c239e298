"""Acting by chance that was drawn elsewhere, so that copies of an agent choose the same actions in other processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from maze_core.base.tree import copy_tree, subtree
from maze_core.collect.agents.exploration import Exploration
from maze_core.data.batch import to_tensors

if TYPE_CHECKING:
    import numpy as np

    from maze_core.base.tree import TensorTree, Tree
    from maze_core.collect.agents.agent import Choice
    from maze_core.collect.agents.exploration import Change
    from maze_core.models.policy import Policy

_NOISE, _EXPLORED = "#noise/", "#explored/"


class NoisePlan(NamedTuple):
    """What `NetworkAgent.ahead` drew for T steps of N environments."""

    noise: Tree
    """Leaves [T, N, …]: the noise of samples; empty for the most likely actions."""
    explored: Tree
    """Leaves [T, N, …]: the result of `Exploration.ahead`; empty where nothing is explored."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all of it under names that parameters do not have."""
        return {
            **{_NOISE + key: leaf for key, leaf in self.noise.items()},
            **{_EXPLORED + key: leaf for key, leaf in self.explored.items()},
        }

    @staticmethod
    def among(arrays: Mapping[str, np.ndarray]) -> NoisePlan:
        """Return the result of `arrays()` out of others."""
        return NoisePlan(subtree(arrays, _NOISE), subtree(arrays, _EXPLORED))


class PlannedNoise:
    """Noise that was drawn elsewhere, for the steps that the agent expects next."""

    def __init__(self) -> None:
        self._noise: Tree = {}

    def take(self, noise: Tree) -> None:
        """Take the noise of the next steps, leaves [T, N, …]."""
        self._noise = noise

    def draw(self, policy: Policy, steps: int) -> TensorTree:
        """Return the noise that was taken."""
        return to_tensors(copy_tree(self._noise))

    def state(self) -> dict[str, Any]:
        """Return nothing: the random state is elsewhere."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""


class PlannedExploration(Exploration):
    """Changes actions by what was drawn elsewhere, step by step."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._steps: Iterator[Tree] = iter(())

    def take(self, explored: Tree) -> None:
        """Take what was drawn for the next steps, leaves [T, N, …]."""
        leaves = zip(*explored.values(), strict=True)
        self._steps = (dict(zip(explored, step, strict=True)) for step in leaves)

    def explore(self, obs: Tree, choice: Choice) -> Choice:
        """Return the actions to take in the next of these steps."""
        return self._change(choice, next(self._steps))
