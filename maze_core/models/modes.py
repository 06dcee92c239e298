"""The mode of a network: training, or evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def in_evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Hold a network in evaluation mode; its modules return to their previous modes."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
