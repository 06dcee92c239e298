"""The mode of a network: training, or evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from torch import nn

N = TypeVar("N", bound=nn.Module)


def for_evaluation(network: N) -> N:
    """Return a network in evaluation mode, in which it also learns.

    Recurrent networks without dropout stay in training mode: it makes no difference to what they compute, and on a GPU
    only that mode has gradients.
    """
    network.eval()
    for module in network.modules():
        if isinstance(module, nn.RNNBase) and not module.dropout:
            module.training = True
    return network


@contextmanager
def in_evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Hold a network in evaluation mode; its modules return to their previous modes."""
    modes = [(module, module.training) for module in network.modules()]
    for_evaluation(network)
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
