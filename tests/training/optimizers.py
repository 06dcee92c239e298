"""What tests of optimizers share: parameters, gradients, groups."""

from __future__ import annotations

import torch


def parameters() -> list[torch.nn.Parameter]:
    """Return a matrix, a vector and a scalar, always the same."""
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 4), (5,), ())]


def train(optimizer, parameters, steps: int, seed: int, skip: int | None = None) -> None:
    """Take steps along gradients that the seed decides; in step `skip` the second parameter has none."""
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        for number, parameter in enumerate(parameters):
            gradient = torch.randn(parameter.shape, generator=generator)
            parameter.grad = None if number == 1 and step == skip else gradient
        optimizer.step()


def groups(parameters):
    """Return two groups, the first with a learning rate of its own."""
    return [{"params": parameters[:2], "lr": 1e-2}, {"params": parameters[2:]}]
