"""Trying a part of a network with a few rows, when a policy is built."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def as_in_acting(part: nn.Module) -> Iterator[None]:
    """Hold a part as it is when it acts, in evaluation mode and without gradients; then it is as before."""
    modes = [(module, module.training) for module in part.modules()]
    part.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
