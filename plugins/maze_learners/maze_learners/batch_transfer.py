"""A share of a batch as one buffer of bytes, for another process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from maze_core import Batch, Sequences, TensorTree
from maze_learners.tensor_layout import TensorLayout

if TYPE_CHECKING:
    from torch import Tensor

_TREES = ("obs", "actions", "extra", "next_obs")


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """A share of a batch without its tensors, which the group sends."""

    layout: TensorLayout
    objective: str
    lengths: np.ndarray | None
    """Of the sequences, [S]; None: there are none."""


def header_of(batch: Batch) -> tuple[BatchHeader, dict[str, Tensor]]:
    """Return a share's header and its tensors by name."""
    tensors = {f"{tree}/{key}": leaf for tree in _TREES for key, leaf in getattr(batch, tree).items()}
    sequences = batch.sequences
    if sequences is not None:
        tensors |= {f"state/{key}": leaf for key, leaf in sequences.state.items()}
        if sequences.order is not None:
            tensors["order/"] = sequences.order
    lengths = None if sequences is None else sequences.lengths
    return BatchHeader(TensorLayout(tensors), batch.objective, lengths), tensors


def received(header: BatchHeader, buffer: Tensor, device: torch.device) -> Batch:
    """Return the share that was sent."""
    trees: dict[str, TensorTree] = {}
    for name, view in header.layout.views(buffer).items():
        tree, _, key = name.partition("/")
        trees.setdefault(tree, {})[key] = view.to(device)
    obs, actions, extra, next_obs = (trees.get(tree, {}) for tree in _TREES)
    batch = Batch(obs, actions, extra, next_obs, header.objective)
    if header.lengths is not None:
        batch.sequences = Sequences(header.lengths, trees.get("state", {}), trees.get("order", {}).get(""))
    return batch
