"""Tensors of any types in one buffer of bytes, which is sent at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

_GRAIN = 16
"""Tensors begin at multiples of this many bytes, the size of the largest element."""


class TensorLayout:
    """Names, shapes and types of tensors, and where each lies in a buffer. It is small and can be pickled.

    Args:
        tensors: those that `views` will hold.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.specs = [(name, tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()]
        sizes = [-(-tensor.numel() * tensor.element_size() // _GRAIN) * _GRAIN for tensor in tensors.values()]
        self._starts = [sum(sizes[:number]) for number in range(len(sizes))]
        self.nbytes = sum(sizes)

    def buffer(self, device: torch.device) -> Tensor:
        """Return a new buffer, uint8 [nbytes]; what it holds is undefined."""
        return torch.empty(self.nbytes, dtype=torch.uint8, device=device)

    def views(self, buffer: Tensor) -> dict[str, Tensor]:
        """Return the tensors in a buffer, which share its memory."""
        found = {}
        for (name, shape, dtype), start in zip(self.specs, self._starts, strict=True):
            size = math.prod(shape) * dtype.itemsize
            found[name] = buffer[start : start + size].view(dtype).view(shape)
        return found

    def pack(self, tensors: Mapping[str, Tensor], device: torch.device) -> Tensor:
        """Return a new buffer on `device` with copies of the tensors."""
        buffer = self.buffer(device)
        for name, view in self.views(buffer).items():
            view.copy_(tensors[name])
        return buffer
