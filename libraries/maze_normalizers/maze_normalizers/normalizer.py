"""Observation normalisation by statistics that are running or estimated before training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from maze_core.envs.spaces import is_image, is_narrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gymnasium import Space

    from maze_core.base.tree import TensorTree

CLIP = 10.0
"""Standard deviations beyond which a value is cut: one outlier must not drive a network by itself."""


@dataclass(frozen=True, slots=True)
class Estimation:
    """The steps from which a normaliser estimates its statistics before training."""

    steps: int
    """Environment steps to estimate from; 0: no estimation."""
    policy: str | dict[str, Any] = "random"
    """Policy plugin that takes these steps: its name, or its name and parameters."""


class ObservationNormalizer(nn.Module):
    """Shifts and scales float leaves other than images, clipped to ±`clip`; other leaves pass unchanged.

    Only `update` and `merge`, called with training data, change the statistics, and only where `running` is True:
    acting, evaluating and computing losses do not. The statistics are part of the state dict. A leaf that `is_narrow`
    is shifted in float64, as it is stored.

    Args:
        leaves: the observation leaves by key.
        strategy: `mean_std`: to mean 0 and standard deviation 1; `range`: the values seen to [-1, 1].
        keys: the leaves to normalise, each a Box of floats; None: all but images.
        clip: the largest value afterwards.
        running: True: training changes the statistics.
        estimation: the steps seen before training.
    """

    scales_plainly: ClassVar[bool] = True
    """`forward` shifts, scales and clips alone, so small policies may do so in numpy. Subclasses do not inherit it."""
    count: Tensor

    def __init__(
        self,
        leaves: Mapping[str, Space[Any]],
        strategy: Literal["mean_std", "range"] = "mean_std",
        keys: tuple[str, ...] | None = None,
        *,
        clip: float = CLIP,
        running: bool = True,
        estimation: Estimation | None = None,
    ) -> None:
        super().__init__()
        self.keys = tuple(key for key, space in leaves.items() if is_normalized(space)) if keys is None else keys
        self._narrow = frozenset(key for key in self.keys if is_narrow(leaves[key]))
        """The leaves that are stored, and shifted, as float64."""
        self.strategy = strategy
        self.running = running
        self.estimation = estimation or Estimation(0)
        self.clip = clip
        self._statistics = STRATEGIES[strategy]
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        for key in self.keys:
            size = int(np.prod(leaves[key].shape or ()))
            for name in self._statistics.names:
                self.register_buffer(f"{key}_{name}", torch.zeros(size, dtype=torch.float64))
            # `forward` reads these in its own precision, so that acting computes no statistics.
            shift = torch.zeros(leaves[key].shape or (), dtype=torch.float64 if key in self._narrow else torch.float32)
            self.register_buffer(f"{key}_shift", shift)
            self.register_buffer(f"{key}_scale", torch.ones(leaves[key].shape or ()))

    def forward(self, obs: TensorTree) -> TensorTree:
        """Return the normalised tree; leaves [B, …]."""
        normalized = dict(obs)
        buffers = cast("dict[str, Tensor]", self._buffers)
        for key in self.keys:
            centred = obs[key] - buffers[f"{key}_shift"]
            scaled = (centred * buffers[f"{key}_scale"]).clamp(-self.clip, self.clip)
            normalized[key] = scaled.float() if key in self._narrow else scaled
        return normalized

    def update(self, obs: TensorTree, valid: Tensor | None = None) -> None:
        """Add rows of training data to the statistics, leaves [*rows, …], unless `running` is False.

        `valid` [*rows] False leaves a row out.
        """
        if self.running:
            self.observe(obs, valid)

    @torch.no_grad()
    def observe(self, obs: TensorTree, valid: Tensor | None = None) -> None:
        """Add rows as `update` does, also where `running` is False."""
        seen: dict[str, Tensor] = {}
        for key in self.keys:
            rows = obs[key].reshape(-1, self._of(key)[0].numel())
            rows = (rows if valid is None else rows[valid.reshape(-1).bool()]).double()
            if not len(rows):
                return
            seen["count"] = torch.tensor(len(rows), dtype=torch.float64, device=rows.device)
            for name, value in zip(self._statistics.names, self._statistics.of(rows), strict=True):
                seen[f"{key}_{name}"] = value
        if seen:
            self._take_in(seen)

    def merge(self, other: Mapping[str, Tensor]) -> None:
        """Add the rows that another normaliser has seen, from its state dict, unless `running` is False."""
        if self.running:
            self._take_in(other)

    @torch.no_grad()
    def _take_in(self, other: Mapping[str, Tensor]) -> None:
        count = other["count"].to(self.count.device)
        for key in self.keys:
            ours = self._of(key)
            theirs = tuple(other[f"{key}_{name}"].to(self.count.device) for name in self._statistics.names)
            for kept, merged in zip(ours, self._statistics.merged(ours, self.count, theirs, count), strict=True):
                kept.copy_(merged)
            # Differences of this share of a value may be rounding alone: of float64, and of float32.
            affine = self._statistics.affine(ours, self.count + count, 1e-14 if key in self._narrow else 1e-7)
            for buffer, value in zip(self._named(key, ("shift", "scale")), affine, strict=True):
                buffer.copy_(value.reshape(buffer.shape))
        self.count += count

    def statistics(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Return mean and standard deviation, or lowest and highest value, of each leaf, float64 [d]."""
        return {key: self._statistics.summary(self._of(key), self.count) for key in self.keys}

    def _of(self, key: str) -> tuple[Tensor, ...]:
        return self._named(key, self._statistics.names)

    def _named(self, key: str, names: Iterable[str]) -> tuple[Tensor, ...]:
        buffers = cast("dict[str, Tensor]", self._buffers)  # `get_buffer` takes as long as a small operation
        return tuple(buffers[f"{key}_{name}"] for name in names)


def is_normalized(space: Space[Any]) -> bool:
    """Return True for a leaf that is normalised by default: a Box of floats other than an image."""
    return is_float(space) and not is_image(space)


def is_float(space: Space[Any]) -> bool:
    """Return True for a leaf that can be normalised."""
    return isinstance(space, spaces.Box) and np.dtype(space.dtype).kind == "f"


_EPSILON = 1e-8
# Added to the variance, so that the scale of values that hardly vary stays finite.

Values = tuple[Tensor, ...]
"""The statistics of a leaf."""


class Statistics(Protocol):
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


class MinMax:
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


STRATEGIES: dict[str, Statistics] = {"mean_std": MeanStd(), "range": MinMax()}
