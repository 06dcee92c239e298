"""Noise of which each environment has its own standard deviation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from maze_offpolicy import ActionNoise

from maze_core import varies
from maze_core.base.saved_state import Array
from maze_core.base.seeding import load_random_state, random_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from gymnasium import Space
    from maze_offpolicy import NoiseProcess

    from maze_core.envs.vector import StepResult


class MixedNoise(ActionNoise):
    """Adds noise whose standard deviation each row draws between two limits, anew for each of its episodes.

    Some environments then explore widely while others follow the policy closely (Seo et al., arXiv 2505.22642).

    Args:
        action_space: of a single environment; every leaf is a Box with finite bounds.
        process: the process that the noise follows, with variance 1.
        rows: N.
        rng: what the standard deviations are drawn with.
        limits: returns the least and the largest one of the moment, in half-ranges.
    """

    change = None  # it depends on the ends of episodes, which workers do not tell

    def __init__(
        self,
        action_space: Space[Any],
        process: NoiseProcess,
        rows: int,
        rng: np.random.Generator,
        limits: Callable[[], tuple[float, float]],
    ) -> None:
        super().__init__(action_space, process, self._stds)
        self._rng, self._limits = rng, limits
        self._shares = rng.random(rows)

    def _stds(self) -> np.ndarray:
        """Return the standard deviation of each row, [N]."""
        return between(self._shares, *self._limits())

    def seen(self, result: StepResult) -> None:
        """Draw those of the rows whose episodes ended."""
        if len(result.final_indices):
            self._shares[result.final_indices] = self._rng.random(len(result.final_indices))

    def state(self) -> dict[str, Any]:
        """Return the state of the process, and what decides the standard deviations."""
        shares = varies(self._shares.copy(), Array(self._shares.dtype, self._shares.shape, 0.0, 1.0))
        return {**super().state(), "shares": shares, "drawn": random_state(self._rng)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        super().load_state(state)
        self._shares = np.array(state["shares"])
        load_random_state(self._rng, state["drawn"])


def between(shares: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the numbers, [N], that lie these shares [N] of the way from `low` to `high`."""
    return low + (high - low) * shares
