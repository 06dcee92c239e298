"""The first convolution of an image encoder, in a form that CPUs compute fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor, nn

_WORD = 4
"""Bytes of an int32."""


def convolve_image(image: Tensor, layer: nn.Conv2d, scale: float | None, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return `layer(image.float() * scale)` up to rounding, [B, C, H, W] → [B, C', H', W'].

    On a CPU the gradient of the weights of a convolution with few channels and a large stride takes longer than all
    else in the network. So, where gradients are asked for, each block of stride x stride pixels becomes one pixel with
    the block's values as channels, and a convolution with stride 1 computes the same sums. Scaling the few weights is
    cheaper than scaling the image.

    Args:
        image: uint8 or float.
        layer: the convolution.
        scale: factor of the image; None: 1.
        dtype: float32, or what the enclosing autocast computes in; pixels of 8 bits are exact in bfloat16.
    """
    stride = layer.stride[0]
    learns = torch.is_grad_enabled() or dtype != torch.float32
    learns &= not torch.compiler.is_compiling()  # exported graphs get the plain form
    if not (learns and image.device.type == "cpu" and _divides(image, layer, stride)):
        # Through the layer itself, which may have been given another forward.
        convolved: Tensor = layer(image.float() if scale is None else image.float() * scale)
        return convolved
    weight = layer.weight if scale is None else layer.weight * scale
    blocks = _blocks(image, stride).to(dtype).permute(0, 3, 1, 2)
    kernel = _blocks(weight, stride).permute(0, 3, 1, 2)
    return F.conv2d(blocks, kernel, layer.bias)


def _divides(image: Tensor, layer: nn.Conv2d, stride: int) -> bool:
    """Whether image and kernel consist of whole blocks of stride x stride pixels, without padding."""
    sides = (*image.shape[-2:], *layer.kernel_size)
    return stride > 1 and not any(layer.padding) and all(side % stride == 0 for side in sides)


def _blocks(image: Tensor, size: int) -> Tensor:
    """Return blocks of pixels as channels, [B, C, H, W] → [B, H / size, W / size, C * size * size]."""
    batch, channels, height, width = image.shape
    rows, columns, values = height // size, width // size, channels * size * size
    if image.dtype == torch.uint8 and size == _WORD and image.is_contiguous() and image.storage_offset() % _WORD == 0:
        # Four neighbouring pixels move as one word, which takes a quarter of the time.
        words = image.view(-1).view(torch.int32).view(batch, channels, rows, size, columns).permute(0, 2, 4, 1, 3)
        return words.reshape(-1).view(torch.uint8).view(batch, rows, columns, values)
    blocks = image.reshape(batch, channels, rows, size, columns, size).permute(0, 2, 4, 1, 3, 5)
    return blocks.reshape(batch, rows, columns, values)
