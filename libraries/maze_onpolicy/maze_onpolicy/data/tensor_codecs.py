"""Convert the observations and actions of environments with tensors to trees and back, without waiting for a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces

from maze_core.envs.checks import MisfitError
from maze_core.envs.codecs import follow, nest
from maze_core.envs.spaces import choices_of, leaf_spec, leaves, start_of, whole_bounds

if TYPE_CHECKING:
    from gymnasium import Space
    from torch import Tensor

    from maze_core import TensorTree
    from maze_core.envs.spaces import Leaf, LeafSpec


class TensorObservations:
    """Writes batched observations into tensors.

    Args:
        space: the space of a single environment.
        device: where the tensors are.
    """

    def __init__(self, space: Space[Any], device: torch.device) -> None:
        self._leaves = [(leaf, leaf_spec(leaf.space)) for leaf in leaves(space, "observation")]
        self._starts = {leaf.key: _tensor(start_of(leaf.space), device) for leaf, _ in self._leaves}
        self._below = {leaf.key: _tensor(choices_of(leaf.space), device) for leaf, _ in self._leaves}
        self._device = device

    def allocate(self, leading: tuple[int, ...]) -> TensorTree:
        """Return a tensor of zeros for every leaf, shapes `[*leading, *leaf shape]`."""
        return {
            leaf.key: torch.zeros((*leading, *spec.shape), dtype=torch_dtype(spec.dtype), device=self._device)
            for leaf, spec in self._leaves
        }

    def write(self, out: TensorTree, observations: Any) -> None:
        """Copy observations [N, …] into all rows of `out`; `usable` looks at their values.

        Raises:
            MisfitError: its structure is another one, or a leaf is no tensor of the right shape and kind.
        """
        for leaf, spec in self._leaves:
            target, start = out[leaf.key], self._starts[leaf.key]
            target.copy_(_fitting(leaf, spec, observations, target.shape))
            if start is not None:
                target.sub_(start)

    def usable(self, tree: TensorTree) -> Tensor:
        """Return whether all written values can be used: finite, and in their discrete spaces; shape ()."""
        return torch.stack([self._usable(key, leaf).all() for key, leaf in tree.items()]).all()

    def check(self, tree: TensorTree) -> None:
        """Raise MisfitError for the first step of written observations, leaves [T, N, …], with another value."""
        for leaf, _ in self._leaves:
            values = tree[leaf.key]
            if len(wrong := (~self._usable(leaf.key, values)).nonzero()):
                t, row = wrong[0, :2].tolist()
                start = self._starts[leaf.key]
                value = (values[t, row] if start is None else values[t, row] + start).numpy(force=True)
                problem = f"{value!s:.80} at '{leaf.key}', where {leaf.space} is declared"
                raise MisfitError(f"in step {t + 1} of a rollout {problem}", row)

    def _usable(self, key: str, leaf: Tensor) -> Tensor:
        below = self._below[key]
        if below is not None:
            return (leaf >= 0) & (leaf < below)
        return leaf.isfinite()


class TensorActions:
    """Turns action trees [N, …] into the actions that an environment with tensors expects.

    Args:
        space: the space of a single environment.
        device: where the tensors are.
    """

    def __init__(self, space: Space[Any], device: torch.device) -> None:
        self._space = space
        self._natives = {leaf.key: _native(leaf.space, device) for leaf in leaves(space, "action")}

    def batch(self, actions: TensorTree) -> Any:
        """Return one batched action in the user's structure, units and dtypes."""
        return nest(self._space, {key: native(actions[key]) for key, native in self._natives.items()}, "action")


def torch_dtype(dtype: np.dtype[Any]) -> torch.dtype:
    """Return torch's dtype of the same name."""
    return torch.from_numpy(np.zeros(1, dtype)).dtype


def _tensor(values: Any, device: torch.device) -> Tensor | None:
    return None if values is None else torch.as_tensor(values, device=device)


def _fitting(leaf: Leaf, spec: LeafSpec, observations: Any, shape: tuple[int, ...]) -> Tensor:
    """Return a leaf of the observations; raise MisfitError unless it is a tensor that fits."""
    try:
        value = follow(observations, leaf.path)
    except (LookupError, TypeError) as error:
        raise MisfitError(f"an observation without '{leaf.key}': {observations!s:.80}") from error
    if not isinstance(value, torch.Tensor) or value.shape != shape:
        given = f"shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
        raise MisfitError(f"{given} at '{leaf.key}' instead of a tensor of shape {tuple(shape)}")
    if value.is_floating_point() and spec.dtype.kind != "f":
        raise MisfitError(f"{value.dtype} at '{leaf.key}', where {spec.dtype} is declared")
    return value


def _native(space: Space[Any], device: torch.device) -> Callable[[Tensor], Tensor]:
    """Return a function from stored actions [N, …] to those in the environment's own units and dtype."""
    dtype = torch_dtype(np.dtype(space.dtype))
    if not isinstance(space, spaces.Box):
        start = _tensor(start_of(space), device)
        return lambda values: (values if start is None else values + start).to(dtype)
    low, high = (torch.as_tensor(bound, device=device) for bound in (space.low, space.high))
    if dtype.is_floating_point:  # cast before clipping: values must stay within a bound that float32 rounds outwards
        return lambda values: values.to(dtype).clamp(low, high)
    lowest, highest = (torch.as_tensor(bound, device=device) for bound in whole_bounds(space))
    return lambda values: values.double().clamp(lowest, highest).round().to(dtype).clamp(low, high)
