"""The statistics for a policy's observation normaliser from a population."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from maze_core import to_tensors

if TYPE_CHECKING:
    from maze_normalizers.normalizer import ObservationNormalizer

    from maze_core import Tree
    from maze_core.collect.pools.workers import Arrays

_ROWS = 4096
"""Number of observations buffered before they are added."""


class Moments:
    """Statistics of one job's observations, in a new normaliser."""

    def __init__(self, normalizer: ObservationNormalizer | None) -> None:
        self._normalizer = copy.deepcopy(normalizer)
        self._pending: list[Tree] = []
        self._count = 0
        for buffer in () if self._normalizer is None else self._normalizer.buffers():
            buffer.zero_()

    def add(self, obs: Tree) -> None:
        """Add rows, leaves [B, …]; the arrays are kept, not copied."""
        if self._normalizer is None:
            return
        self._pending.append(obs)
        self._count += len(next(iter(obs.values())))
        if self._count >= _ROWS:
            self._flush(self._normalizer)

    def arrays(self) -> Arrays:
        """Return the arguments of `ObservationNormalizer.merge` as arrays; empty without a normaliser."""
        if self._normalizer is None:
            return {}
        self._flush(self._normalizer)
        return {name: value.cpu().numpy() for name, value in self._normalizer.state_dict().items()}

    def _flush(self, normalizer: ObservationNormalizer) -> None:
        if self._pending:
            rows = {k: np.concatenate([obs[k] for obs in self._pending]) for k in normalizer.keys}
            normalizer.update(to_tensors(rows, normalizer.count.device))
        self._pending, self._count = [], 0
