"""Batches that lack rows become as large as the others, so that one recording serves all of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from maze_core import ROW_WEIGHT, Batch
from maze_core.learn.taken_over import declares

if TYPE_CHECKING:
    from maze_core.plugins.hookspecs import Run

_MOST = 32_768
"""Rows of a whole batch up to which filling saves time on a CPU; what is left of a larger one is quicker as it is."""

_KEPT = 8
"""Weights that are kept."""


class Filling:
    """Gives batches the rows that they lack, and all rows their weight.

    Args:
        rows: rows of a whole batch; 0: batches stay as they are.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._weights: dict[int, Tensor] = {}
        """By the number of missing rows: all passes over a rollout need the same."""

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
        weight = {ROW_WEIGHT: self._weighing(missing, batch.leaves[0].device)}
        if missing:
            batch = batch.map(lambda leaf: torch.cat((leaf, leaf[:missing])))
        extra = {**batch.extra, **weight}
        return Batch(batch.obs, batch.actions, extra, batch.next_obs, batch.objective, batch.group)

    def _weighing(self, missing: int, device: torch.device) -> Tensor:
        """Return the weights of a batch, of whose rows the last are further ones."""
        found = self._weights.get(missing)
        if found is None or found.device != device:
            if len(self._weights) == _KEPT:
                self._weights.clear()
            found = torch.zeros(self._rows, device=device)
            found[: self._rows - missing] = 1 / (self._rows - missing)
            self._weights[missing] = found
        return found


def rows_of_a_rollout(run: Run) -> int:
    """Return how many rows a rollout of an on-policy algorithm has at most; 0 for other algorithms."""
    config = run.config.algorithm
    steps, copies = (getattr(config, name, None) or 0 for name in ("n_rollout_steps", "num_envs"))
    return int(steps) * run.rows_of(int(copies))
