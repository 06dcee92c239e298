"""An auxiliary loss for Maze: small weights, whatever the algorithm."""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated

import torch
from pydantic import Field

from maze_core import Batch, Loss, Plugin, PluginConfig, Policy, hookimpl


class ExampleAuxiliaryLossConfig(PluginConfig):
    """The parameters of the loss."""

    coef: Annotated[float, Field(ge=0)] = 0.001
    """Weight of the term."""


class ExampleAuxiliaryLoss(Plugin):
    """Add the sum of all squared weights to the loss of any algorithm."""

    Config = ExampleAuxiliaryLossConfig
    supports_learners = True

    @hookimpl(wrapper=True)
    def compute_loss(self, policy: Policy, batch: Batch) -> Generator[None, Loss, Loss]:
        """Let the algorithm compute its loss, then add a term; it is logged as `loss/small_weights`."""
        loss = yield
        squares = torch.stack([parameter.square().sum() for parameter in policy.parameters()])
        return loss.plus("small_weights", self.config.coef * squares.sum())
