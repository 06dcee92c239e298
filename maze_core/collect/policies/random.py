"""The policy `random`: uniform over all allowed actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_core.collect.policies.base import ActingPolicy
from maze_core.envs.masks import mask_leaves, no_choice
from maze_core.envs.spaces import allocate, flatten_space, float_bounds, space_specs

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.base.tree import Tree

Sample = Callable[[np.random.Generator, np.ndarray | None], Any]
"""Returns one value of a leaf from a generator and the leaf's mask, if it has one."""


class RandomPolicy(ActingPolicy):
    """Act at random: uniformly within bounds, and only as action masks allow.

    An unbounded dimension is drawn from a standard normal distribution, a half-bounded one from an exponential one
    above or below its bound. The largest number of a float type does not count as a bound.
    """

    def setup(self, observation_space: Space[Any], action_space: Space[Any]) -> None:
        """Read the action space, and the masks of the observation space."""
        self._specs = space_specs(action_space, "action")
        self._masks = mask_leaves(observation_space, action_space)
        self.blind = not self._masks
        self._samples = {
            key: _sampler(key, space, self._masks.get(key, ("",)))
            for key, space in flatten_space(action_space, "action").items()
        }

    def act(self, obs: Tree, rngs: Sequence[np.random.Generator]) -> Tree:
        """Draw an action for every row.

        Raises:
            RunError: a mask forbids every choice.
        """
        actions = allocate(self._specs, (len(rngs),))
        for key, sample in self._samples.items():
            masks = None
            if key in self._masks:
                parts = [obs[leaf].reshape(len(rngs), -1) != 0 for leaf in self._masks[key]]
                masks = np.concatenate(parts, 1)
            for row, rng in enumerate(rngs):
                actions[key][row] = sample(rng, None if masks is None else masks[row])
        return actions


def _sampler(key: str, space: Space[Any], places: tuple[str, ...]) -> Sample:
    if isinstance(space, spaces.Discrete):
        size = int(space.n)
        return lambda rng, mask: _choice(rng, size, mask, places[0])
    if isinstance(space, spaces.MultiDiscrete):
        edges = np.concatenate([[0], np.cumsum(space.nvec)]).tolist()
        return lambda rng, mask: [
            _choice(rng, stop - start, None if mask is None else mask[start:stop], places[member % len(places)])
            for member, (start, stop) in enumerate(pairwise(edges))
        ]
    if isinstance(space, spaces.MultiBinary):
        shape = space.shape
        return lambda rng, mask: rng.integers(0, 2, shape) & (1 if mask is None else mask)
    if not isinstance(space, spaces.Box):
        raise TypeError(f"action {key!r} has the unsupported space {space}")
    return _box_sampler(space)


def _choice(rng: np.random.Generator, size: int, mask: np.ndarray | None, place: str) -> int:
    if mask is None:
        return int(rng.integers(size))
    allowed = np.flatnonzero(mask)
    if not len(allowed):
        raise no_choice(f"the mask {place!r} forbids every choice", place)
    return int(allowed[rng.integers(len(allowed))])


def _box_sampler(space: spaces.Box) -> Sample:
    kind: Any = np.dtype(space.dtype)
    if kind.kind != "f":
        lowest, highest = (bound.astype(kind) for bound in (space.low, space.high))
        return lambda rng, mask: rng.integers(lowest, highest, endpoint=True, dtype=kind)
    low, high = float_bounds(space)
    below, above = np.isfinite(low), np.isfinite(high)
    base, width = np.where(below, low, np.where(above, high, 0.0)), np.where(below & above, high - low, 1.0)

    def sample(rng: np.random.Generator, mask: np.ndarray | None) -> np.ndarray:
        uniform, normal, tail = rng.random(low.shape), rng.standard_normal(low.shape), rng.exponential(size=low.shape)
        chosen = np.where(below & above, uniform, np.where(below, tail, np.where(above, -tail, normal)))
        clipped: np.ndarray = np.clip(base + width * chosen, low, high)
        return clipped

    return sample
