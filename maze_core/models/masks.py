"""Action masks as tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from maze_core.base.tree import TensorTree


def joined_mask(obs: TensorTree, leaves: Sequence[str]) -> Tensor:
    """Return an action's mask [B, n], not 0 where a choice is allowed, from its leaves [B, …] in observations."""
    parts = [obs[key].flatten(1) for key in leaves]
    return parts[0] if len(parts) == 1 else torch.cat([part != 0 for part in parts], 1)
