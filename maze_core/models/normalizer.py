"""Running mean and standard deviation of observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from maze_core.models.inputs import is_image

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import Space

    from maze_core.data.batch import TensorTree

_CLIP = 10.0
_EPSILON = 1e-8


class ObservationNormalizer(nn.Module):
    """(x - mean) / std for each float leaf that is no image, clipped to ±10; other leaves pass unchanged.

    The statistics change in `update` only, which the collector of the learner calls: acting, evaluating and
    computing losses cannot move them. They are part of the state dict.
    """

    count: Tensor

    def __init__(self, leaves: Mapping[str, Space[Any]]) -> None:
        super().__init__()
        self.keys = tuple(key for key, space in leaves.items() if _is_normalized(space))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        for key in self.keys:
            size = int(np.prod(leaves[key].shape or ()))
            for name in ("mean", "m2"):
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
            normalized[key] = (centred * buffers[f"{key}_scale"]).clamp(-_CLIP, _CLIP)
        return normalized

    @torch.no_grad()
    def update(self, obs: TensorTree, valid: Tensor | None = None) -> None:
        """Take in rows, leaves [*rows, …] with any leading dimensions; `valid` [*rows] False leaves one out."""
        moments: dict[str, Tensor] = {}
        for key in self.keys:
            size = self._moments(key)[0].numel()
            rows = obs[key].reshape(-1, size)
            rows = (rows if valid is None else rows[valid.reshape(-1).bool()]).double()
            if not len(rows):
                return
            mean = rows.mean(0)
            moments["count"] = torch.tensor(len(rows), dtype=torch.float64, device=rows.device)
            moments[f"{key}_mean"], moments[f"{key}_m2"] = mean, (rows - mean).square().sum(0)
        if moments:
            self.merge(moments)

    @torch.no_grad()
    def merge(self, other: Mapping[str, Tensor]) -> None:
        """Take in the rows that another normaliser has seen, given by its state dict.

        Merges its moments into these (Chan, Golub and LeVeque 1979, eq. 2.1).
        """
        count = other["count"].to(self.count.device)
        total = self.count + count
        for key in self.keys:
            mean, m2 = self._moments(key)
            delta = other[f"{key}_mean"].to(mean.device) - mean
            m2 += other[f"{key}_m2"].to(mean.device) + delta.square() * (self.count * count / total)
            mean += delta * (count / total)
            shift, scale = self.get_buffer(f"{key}_shift"), self.get_buffer(f"{key}_scale")
            shift.copy_(mean.reshape(shift.shape))
            scale.copy_((m2 / total + _EPSILON).rsqrt().reshape(scale.shape))
        self.count += count

    def statistics(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Mean and standard deviation of each leaf, float64 [d]."""
        count = self.count.clamp(min=1)
        return {key: (mean, (m2 / count).sqrt()) for key in self.keys for mean, m2 in [self._moments(key)]}

    def _moments(self, key: str) -> tuple[Tensor, Tensor]:
        return self.get_buffer(f"{key}_mean"), self.get_buffer(f"{key}_m2")


def _is_normalized(space: Space[Any]) -> bool:
    return isinstance(space, spaces.Box) and np.dtype(space.dtype).kind == "f" and not is_image(space)
