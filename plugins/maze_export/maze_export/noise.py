"""Noise as an input: what the exported policy samples with, drawn by numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from maze_core.base.errors import ConfigError
from maze_core.models.distributions import (
    Bernoulli,
    Beta,
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
    SquashedGaussian,
)
from maze_export.interface import Leaf

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core.base.tree import TensorTree
    from maze_core.models.policy import Policy

NoiseLeaves = Mapping[str, tuple[Leaf, ...]]
"""The noise of each action leaf, by its key."""

_DRAWS: Mapping[type[Any], str] = {
    Categorical: "gumbel",
    MultiCategorical: "gumbel",
    Bernoulli: "logistic",
    DiagonalGaussian: "standard_normal",
    SquashedGaussian: "standard_normal",
}


def noise_leaves(policy: Policy, obs: TensorTree) -> NoiseLeaves:
    """Return the inputs that replace `Policy.draw_noise`; `obs` is an example, leaves [1, …].

    Raises:
        ConfigError: a distribution's noise is not known.
    """
    with torch.no_grad():
        parts: Mapping[str, Any] = getattr(policy.distribution(obs), "parts", {})
        drawn = policy.draw_noise((1,), torch.Generator())
    if not parts or parts.keys() != drawn.keys():
        raise _unknown(f"the policy {type(policy).__name__}")
    return {key: tuple(_leaves(key, part, drawn[key])) for key, part in parts.items()}


def _leaves(key: str, part: Any, drawn: Tensor) -> list[Leaf]:
    shape = tuple(drawn.shape[1:])
    if type(part) is Beta:
        # Its draw_noise pairs a normal and a log-uniform number, which is minus an exponential one.
        draws = {"normal": "standard_normal", "exponential": "standard_exponential"}
        return [Leaf(f"noise/{key}/{name}", shape[:-1], "float32", draw) for name, draw in draws.items()]
    if type(part) not in _DRAWS:
        raise _unknown(f"the distribution {type(part).__name__} of action {key!r}")
    return [Leaf(f"noise/{key}", shape, "float32", _DRAWS[type(part)])]


def _unknown(what: str) -> ConfigError:
    return ConfigError(f"{what} does not say what noise it samples with", "--stochastic", "Next: leave it out.")


def joined(inputs: TensorTree, noise: NoiseLeaves) -> TensorTree:
    """Return the noise among the inputs as the policy's distribution takes it."""
    return {key: _joined([inputs[leaf.name] for leaf in leaves]) for key, leaves in noise.items()}


def _joined(leaves: list[Tensor]) -> Tensor:
    if len(leaves) == 1:
        return leaves[0]
    normal, exponential = leaves
    return torch.stack((normal, -exponential), -1)
