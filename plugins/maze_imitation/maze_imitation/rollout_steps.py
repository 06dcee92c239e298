"""The steps of a rollout as the rows of a batch of transitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maze_core import Batch, take_rows, to_tensors
from maze_core.base.tree import flat_rows

if TYPE_CHECKING:
    import torch

    from maze_core import Rollout, TensorTree, Tree


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
