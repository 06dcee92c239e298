"""What the layers that see pictures compute in: float32, or bfloat16 while they learn."""

from __future__ import annotations

from typing import Literal

import torch

ImagePrecision = Literal["float32", "bfloat16", "auto"]
"""`auto`: bfloat16 on processors that multiply matrices of it (AMX), else float32."""


def computing_dtype(precision: ImagePrecision, device: torch.device) -> torch.dtype:
    """Return the type in which layers of a precision compute now.

    Acting, in torch's inference mode, and exported graphs compute in float32: a trained policy then does the same
    wherever it runs. Gradients, and the values and log-probabilities that losses compare, are computed alike.
    """
    if precision == "float32" or torch.is_inference_mode_enabled() or torch.compiler.is_compiling():
        return torch.float32
    if precision == "auto" and not _multiplies_bfloat16(device):
        return torch.float32
    return torch.bfloat16


def _multiplies_bfloat16(device: torch.device) -> bool:
    """Whether bfloat16 is known to be faster: without AMX a CPU takes one to nine times as long as in float32."""
    return device.type == "cpu" and torch.cpu._is_amx_tile_supported()
