"""A module's parameters: their number, and their arrays for other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from torch import nn


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


def parameter_counts(policy: nn.Module) -> dict[str, int]:
    """Return the parameters by block (the direct children), and in `total`, where shared ones count once."""
    counts = {name: count(child) for name, child in policy.named_children()}
    own = sum(parameter.numel() for parameter in policy.parameters(recurse=False))
    counts = {**counts, "other": own, "total": count(policy)}
    return {name: number for name, number in counts.items() if number or name == "total"}


def count(module: nn.Module) -> int:
    """Return the number of parameters, trainable and frozen."""
    return sum(parameter.numel() for parameter in module.parameters())
