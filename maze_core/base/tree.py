"""Trees: flat dicts of arrays or tensors, one leaf for each space. What is done to all leaves is done here.

A single space is the leaf `observation` or `action`; the keys of nested spaces join with `/`. Torch is not imported:
environments are stepped in processes that do without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    import torch

Tree = dict[str, np.ndarray]
"""A flat dict of arrays."""
TensorTree = dict[str, "torch.Tensor"]
"""A flat dict of tensors."""

LeafT = TypeVar("LeafT", np.ndarray, "torch.Tensor")
InT = TypeVar("InT")
OutT = TypeVar("OutT")


def map_tree(function: Callable[[InT], OutT], tree: Mapping[str, InT]) -> dict[str, OutT]:
    """Return the results of a function of each leaf."""
    return {key: function(leaf) for key, leaf in tree.items()}


def take_rows(tree: Mapping[str, LeafT], rows: Any) -> dict[str, LeafT]:
    """Return `leaf[rows]` of each leaf; `rows`: any index that the leaves allow."""
    return {key: leaf[rows] for key, leaf in tree.items()}


def gather_rows(tree: Mapping[str, np.ndarray], numbers: np.ndarray) -> Tree:
    """Return the rows of an array of numbers; for many of them faster than `take_rows`."""
    return {key: leaf.take(numbers, 0) for key, leaf in tree.items()}


def select_rows(tree: Mapping[str, torch.Tensor], index: torch.Tensor) -> TensorTree:
    """Return the rows of a tensor of numbers, wherever it is."""
    return {key: leaf.index_select(0, index.to(leaf.device)) for key, leaf in tree.items()}


def put_rows(tree: Mapping[str, LeafT], rows: Any, values: Mapping[str, LeafT]) -> None:
    """Write `leaf[rows]` of each leaf that `values` has."""
    for key, value in values.items():
        tree[key][rows] = value


def with_rows(tree: Mapping[str, torch.Tensor], numbers: torch.Tensor, rows: TensorTree) -> TensorTree:
    """Return copies of the tensors in which the rows of these numbers are others."""
    return {key: leaf.index_copy(0, numbers.to(leaf.device), rows[key]) for key, leaf in tree.items()}


def copy_tree(tree: Mapping[str, np.ndarray]) -> Tree:
    """Return copies of all leaves."""
    return {key: np.array(leaf) for key, leaf in tree.items()}


def concat_trees(trees: Sequence[Mapping[str, np.ndarray]], axis: int = 0) -> Tree:
    """Return trees of the same keys joined along an axis that their leaves have."""
    return {key: np.concatenate([tree[key] for tree in trees], axis) for key in trees[0]}


def stack_trees(trees: Sequence[Mapping[str, np.ndarray]]) -> Tree:
    """Return trees of the same keys joined along a new first axis."""
    return {key: np.stack([tree[key] for tree in trees]) for key in trees[0]}


def subtree(tree: Mapping[str, InT], prefix: str) -> dict[str, InT]:
    """Return the leaves whose keys begin with `prefix`, under the rest of their keys."""
    return {key.removeprefix(prefix): leaf for key, leaf in tree.items() if key.startswith(prefix)}


def flat_rows(tree: Mapping[str, LeafT]) -> dict[str, LeafT]:
    """Return leaves [T, N, …] as [T * N, …]."""
    return {key: leaf.reshape(-1, *leaf.shape[2:]) for key, leaf in tree.items()}


def to_device(tree: Mapping[str, torch.Tensor], device: torch.device) -> TensorTree:
    """Return the tensors on a device."""
    return {key: leaf.to(device) for key, leaf in tree.items()}


def to_arrays(tree: Mapping[str, torch.Tensor]) -> Tree:
    """Return arrays; those of tensors on the CPU share their memory."""
    return {key: leaf.numpy(force=True) for key, leaf in tree.items()}
