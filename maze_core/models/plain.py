"""Fully connected networks that numpy computes as torch does: which they are, and their activations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor, nn

    from maze_core.models.blocks import MLP


def _relu(features: np.ndarray, out: np.ndarray) -> None:
    np.maximum(features, 0, out=out)


ACTIVATIONS: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {"tanh": np.tanh, "relu": _relu}
"""What computes an activation of the first array into the second."""


def is_plain_trunk(trunk: MLP) -> bool:
    """Return True for layers without norms whose activation is one of `ACTIVATIONS`."""
    return trunk.activation in ACTIVATIONS and not trunk.norms


def are_plain(parameters: Iterable[Tensor]) -> bool:
    """Return True where all parameters are float32 on the CPU."""
    return all(p.device.type == "cpu" and p.dtype == torch.float32 for p in parameters)


def has_hooks(network: nn.Module) -> bool:
    """Return True if torch calls a hook in the forward pass of some module."""
    return any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())
