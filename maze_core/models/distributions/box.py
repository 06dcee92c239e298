"""The affine map between canonical actions in [-1, 1] and the units of a Box."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from maze_core.envs.spaces import float_bounds, is_narrow

if TYPE_CHECKING:
    from gymnasium.spaces import Box


class BoxScale(nn.Module):
    """Canonical z and action a = centre + radius * z, dimension by dimension: z in [-1, 1] spans [low, high].

    Dimensions without two finite bounds keep their units (centre 0, radius 1). `log_volume` is the sum of
    log(radius), which the change of units subtracts from a log-density. Canonical actions are flat, [B, d]. Where the
    space `is_narrow`, actions in its units are float64.
    """

    centre: Tensor
    radius: Tensor
    lowest: Tensor
    highest: Tensor

    def __init__(self, space: Box) -> None:
        super().__init__()
        self._narrow = is_narrow(space)
        dtype = torch.float64 if self._narrow else torch.float32
        for name, bound in zip(("lowest", "highest"), float_bounds(space), strict=True):
            self.register_buffer(name, torch.as_tensor(bound, dtype=dtype), persistent=False)
        low, high = (bound.reshape(-1) for bound in float_bounds(space))
        finite = np.isfinite(low) & np.isfinite(high)
        self.bounded = bool(finite.all())
        low, high = np.where(finite, low, -1.0), np.where(finite, high, 1.0)
        radius = np.where(high > low, (high - low) / 2, 1.0)
        self._dtype = np.dtype(space.dtype)
        self.shape: tuple[int, ...] = tuple(space.shape)
        self.size = int(radius.size)
        self.log_volume = float(np.log(radius).sum())
        self._identity = bool((radius == 1).all() and (high + low == 0).all())
        self.register_buffer("centre", torch.as_tensor((high + low) / 2, dtype=dtype), persistent=False)
        self.register_buffer("radius", torch.as_tensor(radius, dtype=dtype), persistent=False)

    def to_env(self, canonical: Tensor) -> Tensor:
        """[…, d] canonical → […, *shape] in the units of the space."""
        if self._narrow:
            canonical = canonical.double()
        action = canonical if self._identity else torch.addcmul(self.centre, self.radius, canonical)
        return action if len(self.shape) == 1 else action.reshape(*action.shape[:-1], *self.shape)

    def executed(self, action: Tensor) -> Tensor:
        """Return actions in the units of the space as environments execute them: within the bounds, rounded."""
        inside = action.clamp(self.lowest, self.highest)
        if self._dtype.kind == "f":
            return inside.half().to(action.dtype) if self._dtype.itemsize == 2 else inside
        return inside.round()

    def to_canonical(self, action: Tensor) -> Tensor:
        """[…, *shape] in the units of the space → […, d] canonical."""
        if len(self.shape) != 1:
            action = action.reshape(*action.shape[: action.ndim - len(self.shape)], self.size)
        canonical = action if self._identity else (action - self.centre) / self.radius
        return canonical.float() if self._narrow else canonical


LOG_2 = math.log(2.0)
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
