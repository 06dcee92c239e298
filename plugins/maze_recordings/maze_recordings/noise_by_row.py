"""Noise for rows that need not be acted for together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maze_core.base.seeding import load_random_states, random_states
from maze_core.base.tree import map_tree
from maze_core.data.batch import concat_tensors

if TYPE_CHECKING:
    from maze_core import Policy
    from maze_core.base.tree import TensorTree


class NoiseByRow:
    """A generator for each row: an episode's noise does not depend on the episodes that are played beside it."""

    def __init__(self, rngs: Sequence[np.random.Generator]) -> None:
        self._rngs = rngs
        self._generator = torch.Generator()

    def draw(self, policy: Policy, steps: int) -> TensorTree:
        """Return the noise of the next steps, leaves [steps, N, …]."""
        drawn = [self._row(policy, rng) for _ in range(steps) for rng in self._rngs]
        rows = concat_tensors(drawn)
        return map_tree(lambda leaf: leaf.reshape(steps, len(self._rngs), *leaf.shape[1:]), rows)

    def _row(self, policy: Policy, rng: np.random.Generator) -> TensorTree:
        self._generator.manual_seed(int(rng.integers(2**63)))
        return policy.draw_noise((1,), self._generator)

    def state(self) -> dict[str, Any]:
        """Return the random states."""
        return {"rngs": random_states(self._rngs)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        load_random_states(self._rngs, state["rngs"])
