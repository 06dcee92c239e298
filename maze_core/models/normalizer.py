"""Normalised observations: statistics of what was seen, running or estimated before training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from maze_core.models.inputs import is_image
from maze_core.models.normalizer_strategies import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import Space

    from maze_core.data.batch import TensorTree

CLIP = 10.0


@dataclass(frozen=True, slots=True)
class Estimation:
    """What a normaliser is to see before training."""

    steps: int
    """Environment steps; 0: nothing."""
    policy: str | dict[str, Any] = "random"
    """The policy plugin that takes them: its name, or name and parameters."""


class ObservationNormalizer(nn.Module):
    """Shifts and scales float leaves that are no image, clipped to ±`clip`; other leaves pass unchanged.

    The statistics change in `update` and `merge`, which whoever collects training data calls, and not even there
    where `running` is False: acting, evaluating and computing losses cannot move them. They are part of the state dict.

    Args:
        leaves: the observation leaves by key.
        strategy: `mean_std`: to mean 0 and standard deviation 1; `range`: what was seen to [-1, 1].
        keys: the leaves to normalise, each of which must be a Box of floats; None: all but images.
        clip: the largest value afterwards.
        running: whether training changes the statistics.
        estimation: what it sees before training.
    """

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
        self.strategy = strategy
        self.running = running
        self.estimation = estimation or Estimation(0)
        self._clip = clip
        self._statistics = STRATEGIES[strategy]
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        for key in self.keys:
            size = int(np.prod(leaves[key].shape or ()))
            for name in self._statistics.names:
                self.register_buffer(f"{key}_{name}", torch.zeros(size, dtype=torch.float64))
            # What forward needs, in its own precision, so that acting computes no statistics.
            self.register_buffer(f"{key}_shift", torch.zeros(leaves[key].shape or ()))
            self.register_buffer(f"{key}_scale", torch.ones(leaves[key].shape or ()))

    def forward(self, obs: TensorTree) -> TensorTree:
        """The normalised tree; leaves [B, …]."""
        normalized = dict(obs)
        buffers = cast("dict[str, Tensor]", self._buffers)
        for key in self.keys:
            centred = obs[key] - buffers[f"{key}_shift"]
            normalized[key] = (centred * buffers[f"{key}_scale"]).clamp(-self._clip, self._clip)
        return normalized

    def update(self, obs: TensorTree, valid: Tensor | None = None) -> None:
        """Take in rows of training data, leaves [*rows, …] with any leading dimensions, unless it is frozen.

        `valid` [*rows] False leaves a row out.
        """
        if self.running:
            self.observe(obs, valid)

    @torch.no_grad()
    def observe(self, obs: TensorTree, valid: Tensor | None = None) -> None:
        """Take in rows, as `update` does, frozen or not."""
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
        """Take in the rows that another normaliser has seen, given by its state dict, unless it is frozen."""
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
            shift, scale = self.get_buffer(f"{key}_shift"), self.get_buffer(f"{key}_scale")
            for buffer, value in zip((shift, scale), self._statistics.affine(ours, self.count + count), strict=True):
                buffer.copy_(value.reshape(buffer.shape))
        self.count += count

    def statistics(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Mean and standard deviation of each leaf, or the lowest and highest value, float64 [d]."""
        return {key: self._statistics.summary(self._of(key), self.count) for key in self.keys}

    def _of(self, key: str) -> tuple[Tensor, ...]:
        return tuple(self.get_buffer(f"{key}_{name}") for name in self._statistics.names)


def is_normalized(space: Space[Any]) -> bool:
    """Whether a leaf is normalised where nobody chooses: a Box of floats that is no image."""
    return is_float(space) and not is_image(space)


def is_float(space: Space[Any]) -> bool:
    """Whether a leaf can be normalised."""
    return isinstance(space, spaces.Box) and np.dtype(space.dtype).kind == "f"
