"""The interface of action distributions."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from maze_core.base.errors import PluginError

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core.models.distributions.box import BoxScale


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
