"""The statistics of a leaf, and the shift and scale computed from them. All tensors float64 [d]."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

_EPSILON = 1e-8

Values = tuple[Tensor, ...]
"""The statistics of a leaf."""


class Strategy(Protocol):
    """Statistics that can be merged. Stateless: the normaliser keeps the values."""

    names: tuple[str, ...]
    """Names of the values."""

    def of(self, rows: Tensor) -> Values:
        """Return the values of rows [B, d], B > 0."""

    def merged(self, ours: Values, count: Tensor, theirs: Values, others: Tensor) -> Values:
        """Return the values of `count` and `others` rows together; with no rows, a side's values are ignored."""

    def affine(self, values: Values, count: Tensor, rounding: float) -> tuple[Tensor, Tensor]:
        """Return shift and scale: (x - shift) * scale.

        Values that differ by less than the share `rounding` of their size are equal as they are stored, and not scaled
        up.
        """

    def summary(self, values: Values, count: Tensor) -> tuple[Tensor, Tensor]:
        """Return two numbers for display."""


class MeanStd:
    """Normalises to mean 0 and standard deviation 1; constant values are only shifted."""

    names: tuple[str, ...] = ("mean", "m2")

    def of(self, rows: Tensor) -> Values:
        """Return mean and sum of squared deviations."""
        mean = rows.mean(0)
        return mean, (rows - mean).square().sum(0)

    def merged(self, ours: Values, count: Tensor, theirs: Values, others: Tensor) -> Values:
        """Merge as in Chan, Golub and LeVeque (1979), eq. 2.1."""
        total = (count + others).clamp(min=1)
        delta = theirs[0] - ours[0]
        m2 = ours[1] + (theirs[1] + delta.square() * (count * others / total))
        return ours[0] + delta * (others / total), m2

    def affine(self, values: Values, count: Tensor, rounding: float) -> tuple[Tensor, Tensor]:
        """Return mean, and one over the standard deviation."""
        variance = values[1] / count.clamp(min=1)
        return values[0], torch.where(variance > (rounding * values[0]) ** 2, (variance + _EPSILON).rsqrt(), 1.0)

    def summary(self, values: Values, count: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation."""
        return values[0], (values[1] / count.clamp(min=1)).sqrt()


class Range:
    """Normalises the range of the values seen to [-1, 1]; constant values are only shifted."""

    names: tuple[str, ...] = ("low", "high")

    def of(self, rows: Tensor) -> Values:
        """Return lowest and highest value."""
        return rows.amin(0), rows.amax(0)

    def merged(self, ours: Values, count: Tensor, theirs: Values, others: Tensor) -> Values:
        """Return the lower minimum and the higher maximum."""
        both = (count > 0) & (others > 0)
        first, second = (torch.where(count > 0, a, b) for a, b in zip(ours, theirs, strict=True))
        low, high = torch.minimum(ours[0], theirs[0]), torch.maximum(ours[1], theirs[1])
        return torch.where(both, low, first), torch.where(both, high, second)

    def affine(self, values: Values, count: Tensor, rounding: float) -> tuple[Tensor, Tensor]:
        """Return the middle, and one over half the width."""
        low, high = values
        width = high - low
        middle = (low + high) / 2
        return middle, torch.where(width > rounding * middle.abs(), 2 / width, 1.0)

    def summary(self, values: Values, count: Tensor) -> tuple[Tensor, Tensor]:
        """Return lowest and highest value."""
        return values[0], values[1]


STRATEGIES: dict[str, Strategy] = {"mean_std": MeanStd(), "range": Range()}
