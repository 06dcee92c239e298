"""Trees of arrays as trees of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor, cat, from_numpy

if TYPE_CHECKING:
    import numpy as np
    import torch

    from maze_core.base.tree import TensorTree


def to_tensors(tree: Mapping[str, np.ndarray | Tensor], device: torch.device | None = None) -> TensorTree:
    """Return tensors on a device; on the CPU they share the memory of the arrays. Tensors stay where they are there."""
    tensors = {key: leaf if isinstance(leaf, Tensor) else from_numpy(leaf) for key, leaf in tree.items()}
    if device is None or device.type == "cpu":
        return tensors
    # Pinned memory is copied while the device works on.
    return {
        key: (leaf.pin_memory() if leaf.device.type == "cpu" else leaf).to(device, non_blocking=True)
        for key, leaf in tensors.items()
    }


def concat_tensors(trees: Sequence[Mapping[str, Tensor]]) -> TensorTree:
    """Return trees of the same keys joined along the first axis of their leaves."""
    return {key: cat([tree[key] for tree in trees]) for key in trees[0]}
