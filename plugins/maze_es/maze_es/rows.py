"""Layers with one row of parameters for each row of their input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from maze_core.models.blocks import Dense
from maze_core.models.heads import GaussianHead


def linear_rows(layer: nn.Linear, features: Tensor) -> Tensor:
    """[M, …, in] → [M, …, out] with weights [M, out, in] and biases [M, out]."""
    weight, bias = layer.weight, layer.bias
    rows = features.reshape(len(weight), -1, weight.shape[-1])
    transposed = weight.transpose(1, 2)
    out = torch.bmm(rows, transposed) if bias is None else torch.baddbmm(bias.unsqueeze(1), rows, transposed)
    return out.view(*features.shape[:-1], weight.shape[1])


def convolution_rows(layer: nn.Conv2d, images: Tensor) -> Tensor:
    """[M, C, H, W] → [M, O, H', W'] with kernels [M, O, C, h, w] and biases [M, O]: a group for each member."""
    members, channels = layer.weight.shape[:2]
    merged = images.reshape(1, -1, *images.shape[2:])
    bias = None if layer.bias is None else layer.bias.reshape(-1)
    kernels = layer.weight.flatten(0, 1)
    groups = members * layer.groups
    out = F.conv2d(merged, kernels, bias, layer.stride, layer.padding, layer.dilation, groups)
    return out.view(members, channels, *out.shape[2:])


def forward_of_rows(layer: nn.Module) -> Callable[[Any, Tensor], Tensor] | None:
    """Return the forward for a layer with rows of parameters; None where the layer's own works.

    Raises:
        TypeError: this kind of layer is not supported.
    """
    if type(layer) in (nn.Linear, Dense):
        return linear_rows
    if type(layer) is nn.Conv2d and layer.padding_mode == "zeros":
        return convolution_rows
    if type(layer) is GaussianHead:  # its log_std may be [M, d]
        return None
    raise TypeError(f"no forward for rows of {type(layer).__name__}")
