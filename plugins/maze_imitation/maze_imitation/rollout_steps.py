"""The steps of a rollout as the rows of a batch of transitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maze_core.base.tree import flat_rows, take_rows
from maze_core.data.batch import Batch, to_tensors

if TYPE_CHECKING:
    import torch

    from maze_core.base.tree import TensorTree, Tree
    from maze_core.data.rollout import Rollout


def rollout_steps(rollout: Rollout, gamma: float, device: torch.device) -> Batch:
    """Return the valid steps of a rollout, with `next_obs`, and the `discount` of what follows in `extra`.

    The actions are as sampled by the distribution, the rows in the order of `rollout.valid`.
    """
    valid = np.flatnonzero(rollout.valid)

    def rows(tree: Tree) -> TensorTree:
        return to_tensors(take_rows(flat_rows(tree), valid), device)

    discount = np.where(rollout.terminated, 0.0, gamma).astype(np.float32)
    before = take_rows(rollout.obs, slice(-1))
    return Batch(rows(before), rows(rollout.actions), rows({"discount": discount}), rows(rollout.following()))
