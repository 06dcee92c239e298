"""Target networks: copies that follow the networks that learn."""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)


class Target(Generic[M]):
    """A copy of a network that slowly follows it (Lillicrap et al., arXiv 1509.02971, Algorithm 1).

    Name `module` in `Algorithm.modules()`, so that checkpoints contain it.
    """

    def __init__(self, network: M) -> None:
        self.module = copy.deepcopy(network).requires_grad_(False)
        self._followers = [parameter.detach() for parameter in self.module.parameters()]
        self._leaders = [parameter.detach() for parameter in network.parameters()]
        self._buffers = list(zip(self.module.buffers(), network.buffers(), strict=True))

    def follow(self, tau: float) -> None:
        """Move the parameters by the share `tau` towards those of the network, and copy its buffers."""
        if self._followers:  # a network may have none, such as a fixed map
            torch._foreach_lerp_(self._followers, self._leaders, tau)
        for follower, leader in self._buffers:
            follower.copy_(leader)


class Itself(Generic[M]):
    """A network in the place of its target: what is computed with it is what it would compute now."""

    def __init__(self, network: M) -> None:
        self.module = network
