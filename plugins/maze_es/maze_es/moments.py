"""The statistics for a policy's observation normaliser from a population."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from maze_core.envs.vector import Tree
    from maze_core.models.normalizer import ObservationNormalizer
    from maze_core.runners.workers import Arrays

_ROWS = 4096
"""Number of observations buffered before they are added."""


class Moments:
    """Statistics of one job's observations, in a new normaliser."""

    def __init__(self, normalizer: ObservationNormalizer | None) -> None:
        self._normalizer = copy.deepcopy(normalizer)
        self._pending: list[Tree] = []
        self._count = 0
        if self._normalizer is not None:
            for buffer in self._normalizer.buffers():
                buffer.zero_()

    def add(self, obs: Tree) -> None:
        """Add rows, leaves [B, …]; the arrays are kept, not copied."""
        if self._normalizer is None:
            return
        self._pending.append(obs)
        self._count += len(next(iter(obs.values())))
        if self._count >= _ROWS:
            self._flush()

    def arrays(self) -> Arrays:
        """Return the arguments of `ObservationNormalizer.merge` as arrays; empty without a normaliser."""
        if self._normalizer is None:
            return {}
        self._flush()
        return {name: value.cpu().numpy() for name, value in self._normalizer.state_dict().items()}

    def _flush(self) -> None:
        if self._normalizer is not None and self._pending:
            keys = self._normalizer.keys
            rows = {key: torch.from_numpy(np.concatenate([obs[key] for obs in self._pending])) for key in keys}
            self._normalizer.update({key: leaf.to(self._normalizer.count.device) for key, leaf in rows.items()})
        self._pending, self._count = [], 0
