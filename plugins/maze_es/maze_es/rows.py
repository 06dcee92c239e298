"""Layers with one row of parameters for each row of their input; their forwards are built for parameters that stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from maze_core import Dense
from maze_core.models.families import GaussianHead


def linear_rows(layer: nn.Linear) -> Callable[[Tensor], Tensor]:
    """Return what maps [M, …, in] → [M, …, out] with the layer's weights [M, out, in] and biases [M, out] of now."""
    weight, bias = layer.weight, layer.bias
    members, width, inputs = weight.shape
    transposed, biases = weight.transpose(1, 2), None if bias is None else bias.unsqueeze(1)

    def forward(features: Tensor) -> Tensor:
        rows = features.unsqueeze(1) if features.dim() == 2 else features.reshape(members, -1, inputs)
        out = torch.bmm(rows, transposed) if biases is None else torch.baddbmm(biases, rows, transposed)
        return out.squeeze(1) if features.dim() == 2 else out.view(*features.shape[:-1], width)

    return forward


def convolution_rows(layer: nn.Conv2d) -> Callable[[Tensor], Tensor]:
    """Return what maps [M, C, H, W] → [M, O, H', W'] with kernels [M, O, C, h, w] and biases [M, O].

    Each member is a group of the convolution.
    """
    members, channels = layer.weight.shape[:2]
    bias = None if layer.bias is None else layer.bias.reshape(-1)
    kernels, groups = layer.weight.flatten(0, 1), members * layer.groups

    def forward(images: Tensor) -> Tensor:
        merged = images.reshape(1, -1, *images.shape[2:])
        out = F.conv2d(merged, kernels, bias, layer.stride, layer.padding, layer.dilation, groups)
        return out.view(members, channels, *out.shape[2:])

    return forward


def rows_of(layer: nn.Module) -> Callable[[Any], Callable[[Tensor], Tensor]] | None:
    """Return what builds the forward of a layer with rows of parameters; None where the layer's own works.

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
