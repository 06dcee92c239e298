"""Layers of FlashSAC, K networks stacked: weights have norm 1, and features are normalised (Kim et al., 2604.04539).

`bound` of a layer, called after each step of the optimizer, brings its parameters back to their norm.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from maze_offpolicy.models.stacked_norms import batch_statistics
from torch import Tensor, nn
from torch.nn import functional as F

EXPANSION = 4
"""Units inside a block, in widths."""
MOMENTUM, EPSILON = 0.01, 1e-5
"""Of batch normalisation: the share of a batch in the running statistics, and what is added to variances."""
_TINY = 1e-8


def unit_norm(weight: Tensor, dim: int) -> Tensor:
    """Return weights whose norm along `dim`, the inputs of a layer, is 1; the same shape."""
    return F.normalize(weight, dim=dim, eps=_TINY)


def joint_norm(*parameters: Tensor) -> list[Tensor]:
    """Return parameters [..., F] of F features with sums of squares of F, over all of them and their last dimension."""
    squares = torch.stack([each.square().sum(-1, keepdim=True) for each in parameters]).sum(0)
    factor = math.sqrt(parameters[0].shape[-1]) * (squares + _TINY).rsqrt()
    return [each * factor for each in parameters]


def rms_normalized(values: Tensor, scale: Tensor) -> Tensor:
    """Return `scale` times values [..., F] over the root of their mean square along F (arXiv 1910.07467)."""
    return values * (values.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * scale


class UnitLinear(nn.Module):
    """Linear layers without bias, whose outputs have weights of norm 1: [K, B, in] → [K, B, out]."""

    def __init__(self, count: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, inputs, outputs))
        for each in self.weight.data:
            nn.init.orthogonal_(each)
        self.bound()

    def forward(self, values: Tensor, *, frozen: bool = False) -> Tensor:
        """[K, B, in] → [K, B, out]; with `frozen` the weights get no gradient."""
        return torch.bmm(values, self.weight.detach() if frozen else self.weight)

    @torch.no_grad()
    def bound(self) -> None:
        """Give the weights of each output the norm 1."""
        self.weight.copy_(unit_norm(self.weight, 1))


class UnitBatchNorm(nn.Module):
    """Batch normalisation (arXiv 1502.03167) with F as the sum of squares of its F scales and F shifts."""

    mean: Tensor
    variance: Tensor

    def __init__(self, count: int, features: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(count, 1, features))
        self.shift = nn.Parameter(torch.zeros(count, 1, features))
        self.register_buffer("mean", torch.zeros(count, 1, features))
        self.register_buffer("variance", torch.ones(count, 1, features))

    def forward(self, values: Tensor, *, batch: bool, observe: bool = True, frozen: bool = False) -> Tensor:
        """[K, B, F] → [K, B, F].

        Args:
            values: the features.
            batch: normalise by the batch's statistics, not by the running ones.
            observe: add those of the batch to the running ones.
            frozen: the parameters get no gradient.
        """
        scale, shift = (self.scale.detach(), self.shift.detach()) if frozen else (self.scale, self.shift)
        if not batch:
            return torch.addcmul(shift, values - self.mean, (self.variance + EPSILON).rsqrt() * scale)
        if observe:
            with torch.no_grad():
                mean, variance = batch_statistics(values)
                self.mean.lerp_(mean, MOMENTUM)
                self.variance.lerp_(variance, MOMENTUM)
        networks = zip(values, scale[:, 0], shift[:, 0], strict=True)
        return torch.stack([F.batch_norm(x, None, None, r, d, training=True, eps=EPSILON) for x, r, d in networks])

    @torch.no_grad()
    def bound(self) -> None:
        """Give scales and shifts together the sum of squares F."""
        scale, shift = joint_norm(self.scale, self.shift)
        self.scale.copy_(scale)
        self.shift.copy_(shift)


class UnitRmsNorm(nn.Module):
    """Features over the root of their mean square, with F as the sum of squares of its F scales."""

    def __init__(self, count: int, features: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(count, 1, features))

    def forward(self, values: Tensor, *, frozen: bool = False) -> Tensor:
        """[K, B, F] → [K, B, F]; with `frozen` the scales get no gradient."""
        return rms_normalized(values, self.scale.detach() if frozen else self.scale)

    @torch.no_grad()
    def bound(self) -> None:
        """Give the scales the sum of squares F."""
        self.scale.copy_(joint_norm(self.scale)[0])


class BoundedTrunk(nn.Module):
    """Batch norm, a layer, residual blocks, root mean square norm: [K, B, in] → [K, B, width].

    A block is x + relu(norm(W2 relu(norm(W1 x)))), with four times the width inside.
    """

    def __init__(self, count: int, inputs: int, width: int, blocks: int) -> None:
        super().__init__()
        sizes = [(inputs, width), *[(width, EXPANSION * width), (EXPANSION * width, width)] * blocks]
        self.layers = nn.ModuleList(UnitLinear(count, *pair) for pair in sizes)
        features = [inputs, *(outputs for _, outputs in sizes[1:])]
        self.norms = nn.ModuleList(UnitBatchNorm(count, size) for size in features)
        self.last = UnitRmsNorm(count, width)

    def forward(self, values: Tensor, *, batch: bool, observe: bool = True, frozen: bool = False) -> Tensor:
        """[K, B, in] → [K, B, width]; arguments as for `UnitBatchNorm`."""
        options = {"batch": batch, "observe": observe, "frozen": frozen}
        values = before = self.layers[0](self.norms[0](values, **options), frozen=frozen)
        for number in range(1, len(self.layers)):
            values = torch.relu(self.norms[number](self.layers[number](values, frozen=frozen), **options))
            if number % 2 == 0:
                values = before = before + values
        normalized: Tensor = self.last(values, frozen=frozen)
        return normalized

    def bound(self) -> None:
        """Bring the parameters of all layers back to their norms."""
        for layer in (*self.layers, *self.norms, self.last):
            cast("UnitLinear | UnitBatchNorm | UnitRmsNorm", layer).bound()
