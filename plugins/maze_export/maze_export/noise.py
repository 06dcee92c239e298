"""Noise as an input: what the exported policy samples with, drawn by numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch

from maze_core import ConfigError
from maze_core.models.distributions.base import DRAWS, Noise, open_interval
from maze_core.models.distributions.base import joined as joined_draws
from maze_export.interface import Leaf

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core import Policy, TensorTree


class LeafNoise(NamedTuple):
    """The noise of an action leaf: what it holds, and the input that has each draw."""

    noise: Noise
    inputs: Mapping[str, Leaf]


NoiseLeaves = Mapping[str, LeafNoise]
"""The noise of each action leaf, by its key."""


def noise_leaves(policy: Policy) -> NoiseLeaves:
    """Return the inputs that replace `Policy.draw_noise`.

    Raises:
        ConfigError: the noise of an action is not known.
    """
    drawn = policy.draw_noise((1,), torch.Generator())
    known: Mapping[str, Noise] = getattr(policy, "noise", {})
    for key in drawn:
        if key not in known or not known[key].keys() <= DRAWS.keys():
            raise _unknown(f"the head of action {key!r}")
    if not drawn:
        raise _unknown(f"the policy {type(policy).__name__}")
    return {key: LeafNoise(known[key], _inputs(key, known[key])) for key in drawn}


def _inputs(key: str, noise: Noise) -> dict[str, Leaf]:
    if len(noise) == 1:
        return {draw: Leaf(f"noise/{key}", shape, "float32", draw) for draw, shape in noise.items()}
    return {
        draw: Leaf(f"noise/{key}/{draw.removeprefix('standard_')}", shape, "float32", draw)
        for draw, shape in noise.items()
    }


def _unknown(what: str) -> ConfigError:
    return ConfigError(f"{what} does not say what noise it samples with", "--stochastic", "Next: leave it out.")


def joined(inputs: TensorTree, noise: NoiseLeaves) -> TensorTree:
    """Return the noise among the inputs as the policy's distribution takes it."""
    return {
        key: joined_draws({draw: _usable(draw, inputs[each.name]) for draw, each in leaf.inputs.items()}, leaf.noise)
        for key, leaf in noise.items()
    }


def _usable(draw: str, numbers: Tensor) -> Tensor:
    """Return the numbers; uniform ones that float32 rounds to 0 or 1 move inside."""
    return open_interval(numbers) if draw == "uniform" else numbers
