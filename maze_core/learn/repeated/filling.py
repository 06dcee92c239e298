"""Batches that lack rows become as large as the others, so that one recording serves all of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from maze_core.data.batch import ROW_WEIGHT, Batch
from maze_core.learn.learner_check import declares

if TYPE_CHECKING:
    from maze_core.plugins.hookspecs import Run

_MOST = 32_768
"""Rows of a whole batch up to which filling saves time on a CPU; what is left of a larger one is quicker as it is."""


class Filling:
    """Gives batches the rows that they lack, and all rows their weight.

    Args:
        rows: rows of a whole batch; 0: batches stay as they are.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._even: Tensor | None = None
        """The weights of a whole batch."""

    @staticmethod
    def of(run: Run) -> Filling:
        """Return that for a run: of minibatches or whole rollouts, if its algorithm declares `weighs_rows`."""
        rollout = rows_of_a_rollout(run)
        most = getattr(run.config.algorithm, "batch_size", math.inf)
        rows = int(min(rollout, most)) if rollout and declares(run.algorithm, "weighs_rows") else 0
        return Filling(0 if rows > _MOST and run.device.type == "cpu" else rows)

    def filled(self, batch: Batch) -> Batch:
        """Return a batch with its weights, and as many rows as a whole one if it has at least half of them.

        The further rows are some of its own, and weigh nothing.
        """
        rows, missing = self._rows, self._rows - len(batch)
        if batch.sequences is not None or missing < 0 or 2 * missing > rows or not rows:
            return batch
        weight = {ROW_WEIGHT: self._weights(missing, batch.leaves[0].device)}
        if missing:
            batch = batch.map(lambda leaf: torch.cat((leaf, leaf[:missing])))
        extra = {**batch.extra, **weight}
        return Batch(batch.obs, batch.actions, extra, batch.next_obs, batch.objective, batch.group)

    def _weights(self, missing: int, device: torch.device) -> Tensor:
        if self._even is None or self._even.device != device:
            self._even = torch.full((self._rows,), 1 / self._rows, device=device)
        if not missing:
            return self._even
        weights = torch.zeros_like(self._even)
        weights[:-missing] = 1 / (self._rows - missing)
        return weights


def rows_of_a_rollout(run: Run) -> int:
    """Return how many rows a rollout of an on-policy algorithm has at most; 0 for other algorithms."""
    config = run.config.algorithm
    steps, copies = (getattr(config, name, None) or 0 for name in ("n_rollout_steps", "num_envs"))
    return int(steps) * run.rows_of(int(copies))
