"""A module's parameters and buffers as arrays, to be shared with other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from torch import nn


def state_arrays(module: nn.Module) -> dict[str, np.ndarray]:
    """Parameters and buffers by name. On a CPU the arrays are views, which follow the module: copy to keep."""
    return {name: tensor.numpy(force=True) for name, tensor in module.state_dict().items()}


def load_arrays(module: nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """Copy what `state_arrays` of a module of the same kind gave into this one.

    Raises:
        RuntimeError: a name or shape differs.
    """
    module.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
