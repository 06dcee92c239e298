"""Parameters as arrays, for workers that act with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_core import Policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from torch import nn

_OF_CRITICS = frozenset({"critic_encoder", "critic_memory", "value_head"})
"""The blocks that only the critic reads."""


def state_arrays(module: nn.Module, *, passing: bool = False) -> dict[str, np.ndarray]:
    """Return parameters and buffers by name. On a CPU the arrays are views of the module's memory: copy to keep.

    The names are those of `state_dict`, which takes twice as long: runs call this at every rollout.

    `passing`: also the buffers that are not saved, such as noise on parameters.
    """
    arrays = {}
    for prefix, part in module.named_modules(prefix="", remove_duplicate=False):
        before, unsaved = prefix and f"{prefix}.", part._non_persistent_buffers_set
        for name, parameter in part._parameters.items():
            if parameter is not None:
                arrays[before + name] = parameter.numpy(force=True)
        for name, buffer in part._buffers.items():
            if buffer is not None and (passing or name not in unsaved):
                arrays[before + name] = buffer.numpy(force=True)
    return arrays


def load_arrays(module: nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """Copy the result of `state_arrays` into a module of the same kind on the CPU.

    Raises:
        ValueError: a name or shape differs.
    """
    views = state_arrays(module)
    differing = {(name, view.shape) for name, view in views.items()} ^ {(n, a.shape) for n, a in arrays.items()}
    if differing:
        raise ValueError(f"the modules differ in {', '.join(sorted({name for name, _ in differing}))}")
    for name, view in views.items():
        view[...] = arrays[name]


def acting_arrays(policy: Policy) -> dict[str, np.ndarray]:
    """Return what acting needs, buffers that are not saved included: `state_arrays` without the critic's own blocks.

    A subclass may act with any of its blocks, so of one all are returned.
    """
    if type(policy) is not Policy:
        return state_arrays(policy, passing=True)
    blocks = [(name, block) for name, block in policy.named_children() if name not in _OF_CRITICS]
    return {
        f"{name}.{key}": array for name, block in blocks for key, array in state_arrays(block, passing=True).items()
    }
