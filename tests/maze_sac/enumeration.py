"""Values of discrete actions written out: every joint action, its probability and the sum of its choices' values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from maze_core.envs.spaces import flatten_space
from maze_core.models.distributions.base import TreeDistribution


def choices_of(space: Any) -> dict[str, list[int]]:
    """The number of choices of each member of each discrete leaf, by action key."""
    found = {}
    for key, leaf in flatten_space(space, "action").items():
        if isinstance(leaf, spaces.Discrete):
            found[key] = [int(leaf.n)]
        elif isinstance(leaf, spaces.MultiDiscrete):
            found[key] = [int(n) for n in leaf.nvec]
        elif isinstance(leaf, spaces.MultiBinary):
            found[key] = [2] * int(leaf.n)
    return found


def every_action(space: Any, rows: int) -> Iterator[dict[str, Tensor]]:
    """All joint actions of a space's discrete leaves, 0-based, each as leaves [rows, …]."""
    leaves, sizes = flatten_space(space, "action"), choices_of(space)
    members = [itertools.product(*map(range, each)) for each in sizes.values()]
    for combination in itertools.product(*members):
        action = {}
        for key, choice in zip(sizes, combination, strict=True):
            dtype = torch.int8 if isinstance(leaves[key], spaces.MultiBinary) else torch.int64
            leaf = torch.tensor(choice, dtype=dtype).expand(rows, -1)
            action[key] = leaf.squeeze(-1) if isinstance(leaves[key], spaces.Discrete) else leaf
        yield action


def summed(values: Tensor, space: Any, action: dict[str, Tensor]) -> Tensor:
    """The values [2, B, C] of every choice, looked up for the choices of actions [B, …] one by one: sums [2, B]."""
    total, start = torch.zeros(values.shape[:2]), 0
    for key, sizes in choices_of(space).items():
        members = action[key].reshape(values.shape[1], -1)
        for member, size in enumerate(sizes):
            for row in range(values.shape[1]):
                total[:, row] = total[:, row] + values[:, row, start + int(members[row, member])]
            start += size
    return total


def expectation(distribution: TreeDistribution, space: Any, values: Tensor) -> Tensor:
    """The expected sums [2, B] of values [2, B, C] over all joint actions; differentiable in both arguments."""
    choices = TreeDistribution({key: distribution.parts[key] for key in choices_of(space)})
    total = torch.zeros(values.shape[:2])
    for action in every_action(space, values.shape[1]):
        total = total + choices.log_prob(action).exp() * summed(values, space, action)
    return total
