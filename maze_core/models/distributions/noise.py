"""Noise that samples are computed from: which numbers a distribution needs, and how torch draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Noise = Mapping[str, tuple[int, ...]]
"""What one row of noise holds: the shape of each draw of `DRAWS`.

One draw has its own shape, [B, *shape]; several are flat, one after the other, [B, n]."""

_TINY = 1e-30
# In place of 0, whose logarithm is infinite.
_OPEN = 2.0**-24
# The distance of uniform numbers from 0 and 1, in which distribution functions cannot be inverted.


def _standard_normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, device=generator.device)


def _standard_exponential(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.empty(shape, device=generator.device).exponential_(generator=generator)


def _gumbel(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    # -log E of an exponential E is a Gumbel variate.
    return _standard_exponential(shape, generator).clamp_(min=_TINY).log_().neg_()


def _logistic(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    # log(u / (1 - u)) of a uniform u: the inverse of the logistic function.
    uniform = torch.rand(shape, generator=generator, device=generator.device)
    return uniform.clamp_(_TINY, 1 - 1e-7).logit_()


def _uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return open_interval(torch.rand(shape, generator=generator, device=generator.device))


def open_interval(uniform: Tensor) -> Tensor:
    """Return uniform numbers with those at 0 and 1 moved just inside."""
    return uniform.clamp(_OPEN, 1 - _OPEN)


DRAWS: Mapping[str, Callable[[tuple[int, ...], torch.Generator], Tensor]] = {
    "gumbel": _gumbel,
    "logistic": _logistic,
    "standard_exponential": _standard_exponential,
    "standard_normal": _standard_normal,
    "uniform": _uniform,
}
"""The draws by name: independent standard numbers of a shape. `numpy.random.Generator` has a method of each name."""


def row_shape(noise: Noise) -> tuple[int, ...]:
    """Return the shape of one row."""
    shapes = list(noise.values())
    return shapes[0] if len(shapes) == 1 else (sum(math.prod(shape) for shape in shapes),)


def draw(noise: Noise, leading: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return rows of noise, [*leading, *row_shape(noise)], on the generator's device."""
    return joined({name: DRAWS[name]((*leading, *shape), generator) for name, shape in noise.items()}, noise)


def joined(drawn: Mapping[str, Tensor], noise: Noise) -> Tensor:
    """Return the noise from its draws, each [*leading, *shape]."""
    parts = [drawn[name].flatten(drawn[name].ndim - len(shape)) if shape else drawn[name].unsqueeze(-1)
             for name, shape in noise.items()]  # fmt: skip
    return drawn[next(iter(noise))] if len(parts) == 1 else torch.cat(parts, -1)
