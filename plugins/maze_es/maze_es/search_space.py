"""The search space: the parameters that determine a policy's actions, as one vector."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from maze_core import ConfigError, distribution_of, to_tensors
from maze_core.models.building import probe
from maze_core.models.memory import separate_rows

if TYPE_CHECKING:
    from maze_core import Policy


class SearchSpace:
    """The names, shapes and positions of the parameters that actions depend on, in a vector of `size`.

    It excludes a critic, and the standard deviation of a Gaussian whose mean is the action: it would not affect any
    return.

    Raises:
        ConfigError: the actions depend on no parameter.
    """

    def __init__(self, policy: Policy, *, deterministic: bool) -> None:
        self.shapes: dict[str, tuple[int, ...]] = acting_parameters(policy, deterministic)
        if not self.shapes:
            raise ConfigError("the actions of this policy depend on no trainable parameter", "model")
        self.size = sum(prod(shape) for shape in self.shapes.values())

    def parameters(self, policy: nn.Module) -> list[nn.Parameter]:
        """Return the parameters in the order of the vector."""
        return [policy.get_parameter(name) for name in self.shapes]

    def vector(self, policy: nn.Module) -> Tensor:
        """Return the current parameters, [size], float32."""
        return torch.cat([p.detach().reshape(-1).float() for p in self.parameters(policy)])

    def split(self, vectors: Tensor) -> dict[str, Tensor]:
        """Return vectors [*leading, size] as named tensors [*leading, *shape], which are views."""
        parts = torch.split(vectors, [prod(shape) for shape in self.shapes.values()], -1)
        leading = vectors.shape[:-1]
        return {name: part.view(*leading, *self.shapes[name]) for name, part in zip(self.shapes, parts, strict=True)}


def acting_parameters(policy: Policy, deterministic: bool) -> dict[str, tuple[int, ...]]:
    """Return the shapes by name of the parameters that actions depend on, found by the gradients of actions."""
    named = {name: p for name, p in policy.named_parameters() if p.requires_grad}
    if not named:
        return {}
    device = next(iter(named.values())).device
    obs = to_tensors(probe(policy.observation_space, 1), device)
    with torch.enable_grad():
        outputs = []
        for part in distribution_of(policy, obs, separate_rows(policy, len(next(iter(obs.values()))))).parts.values():
            mode = part.mode()
            outputs.append(mode if deterministic and mode.requires_grad else part.log_prob(mode))
        total = torch.stack([output.sum() for output in outputs]).sum()
        gradients = torch.autograd.grad(total, list(named.values()), allow_unused=True)
    pairs = zip(named.items(), gradients, strict=True)
    return {name: tuple(parameter.shape) for (name, parameter), gradient in pairs if gradient is not None}
