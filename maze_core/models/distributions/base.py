"""The interface of action distributions, their joint distribution, and the noise that samples are computed from."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from maze_core.base.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from maze_core.base.tree import TensorTree
    from maze_core.models.distributions.continuous import BoxScale


class Distribution(Protocol):
    """A batch of B independent distributions over one action leaf.

    A distribution draws *samples*, which are not always in environment units: a squashed Gaussian samples the
    value before the tanh, so that its log-probability stays exact. `env_action` turns samples into
    environment units. Log-densities are those of the action in environment units, summed over its dimensions.

    Derive from it to write one: methods that are not abstract have a default. Over a Box set `self.scale`, which the
    head has: samples are then canonical actions, in which a bounded Box spans [-1, 1]. Over choices set
    `self.log_probs` [B, C], the log-probability of each choice of each member, if it is to be used with SAC. Two class
    attributes say what more it has, both False by default:

    - `reparametrised`: `sample` and `mode` are differentiable in the parameters. SAC, TD3 and CQL need that.
    - `bounded`: every action lies within the bounds of the space, which must then be finite. They need that too.
    """

    @abstractmethod
    def sample(self, noise: Tensor) -> Tensor:
        """Return a sample [B, …], computed from the noise [B, …] that its head draws, and from nothing else."""

    @abstractmethod
    def mode(self) -> Tensor:
        """Return the sample for acting deterministically, [B, …]."""

    @abstractmethod
    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log-probability, or log-density in environment units, of a sample's action, [B]."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Return the entropy in nats of the action in environment units, [B]."""

    def kl(self, other: Any) -> Tensor:
        """Return KL(self ‖ other) in nats, [B]. `other` has the same class and space.

        Raises:
            PluginError: the distribution has none.
        """
        raise PluginError(f"the distribution {type(self).__name__} has no KL divergence")

    def env_action(self, sample: Tensor) -> Tensor:
        """Return the action in environment units, [B, *space.shape]."""
        scale: BoxScale | None = getattr(self, "scale", None)
        return sample if scale is None else scale.to_env(sample)

    def from_env_action(self, action: Tensor) -> Tensor:
        """Return the sample for an action in environment units; actions on a bound move just inside."""
        scale: BoxScale | None = getattr(self, "scale", None)
        return action if scale is None else scale.to_canonical(action)


def sum_last(values: Tensor) -> Tensor:
    """Return the sum over the last dimension; a view where it has one element."""
    return values.squeeze(-1) if values.shape[-1] == 1 else values.sum(-1)


@dataclass(frozen=True, slots=True)
class TreeDistribution:
    """The product of independent distributions, one for each action leaf.

    Log-probabilities, entropies and divergences are sums over leaves and dimensions, of shape [B].
    """

    parts: dict[str, Distribution]

    def sample(self, noise: TensorTree) -> TensorTree:
        """Return samples, leaves [B, …], computed from noise of `Policy.draw_noise`."""
        return {key: part.sample(noise[key]) for key, part in self.parts.items()}

    def mode(self) -> TensorTree:
        """Return the samples for acting deterministically, leaves [B, …]."""
        return {key: part.mode() for key, part in self.parts.items()}

    def log_prob(self, samples: TensorTree) -> Tensor:
        """Return the joint log-probability (density in environment units) of samples, [B]."""
        return _total(part.log_prob(samples[key]) for key, part in self.parts.items())

    def entropy(self) -> Tensor:
        """Return the joint entropy in nats, [B]."""
        return _total(part.entropy() for part in self.parts.values())

    def kl(self, other: TreeDistribution) -> Tensor:
        """Return KL(self ‖ other) in nats, [B]."""
        return _total(part.kl(other.parts[key]) for key, part in self.parts.items())

    def snapshot(self) -> TreeDistribution:
        """Return the distribution as it is now, for a comparison later: some hold parameters, which change in place.

        Call it on a distribution that was made without gradients.
        """
        return TreeDistribution(copy.deepcopy(self.parts))

    def env_action(self, samples: TensorTree) -> TensorTree:
        """Return the actions in environment units for some samples."""
        return {key: part.env_action(samples[key]) for key, part in self.parts.items()}

    def from_env_action(self, actions: TensorTree) -> TensorTree:
        """Return the samples for actions in environment units; actions on a bound move just inside."""
        return {key: part.from_env_action(actions[key]) for key, part in self.parts.items()}


def _total(terms: Iterable[Tensor]) -> Tensor:
    return reduce(torch.add, terms)


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
    exponential = torch.empty(shape, device=generator.device).exponential_(generator=generator)
    return exponential.clamp_(min=_TINY).log_().neg_()


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
