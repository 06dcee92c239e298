"""Trees of arrays as trees of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import from_numpy

if TYPE_CHECKING:
    import numpy as np
    import torch

    from maze_core.base.tree import TensorTree


def to_tensors(tree: Mapping[str, np.ndarray], device: torch.device | None = None) -> TensorTree:
    """Return tensors on a device; on the CPU they share the memory of the arrays."""
    if device is None or device.type == "cpu":
        return {key: from_numpy(leaf) for key, leaf in tree.items()}
    return {key: from_numpy(leaf).to(device) for key, leaf in tree.items()}
