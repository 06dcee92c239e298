"""The distribution of an action leaf that some rows of a batch do not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_core.models.several.routing import SCALAR, Blank, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from maze_core.models.distributions.base import Distribution


class RoutedLeaf:
    """Distributions of several groups over the rows in which they act; other rows have no action.

    In those samples and actions are zeros, and log-probability, entropy and divergence are 0, so they do not count in
    the sum over leaves. `ActorPolicy.draw_noise` draws the noise.

    Args:
        route: which rows belong to which group.
        parts: the distributions by group.
        sample: what samples of rows without an action hold.
        action: what their actions hold.
    """

    def __init__(self, route: Route, parts: Mapping[int, Distribution], sample: Blank, action: Blank) -> None:
        self.route, self.parts = route, parts
        self._sample, self._action = sample, action

    def sample(self, noise: Tensor) -> Tensor:
        """Return samples [B, …], computed from noise [B, …]."""
        return self._each(lambda part, rows: part.sample(rows), self._sample, noise)

    def mode(self) -> Tensor:
        """Return the samples for acting deterministically, [B, …]."""
        return self.route.put({group: part.mode() for group, part in self.parts.items()}, self._sample)

    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log-probability of samples, [B]; 0 in rows without an action."""
        return self._each(lambda part, rows: part.log_prob(rows), SCALAR, sample)

    def entropy(self) -> Tensor:
        """Return the entropy, [B]; 0 in rows without an action."""
        return self.route.put({group: part.entropy() for group, part in self.parts.items()}, SCALAR)

    def kl(self, other: Any) -> Tensor:
        """Return KL(self ‖ other), [B], for the same rows; 0 in rows without an action."""
        return self.route.put({group: part.kl(other.parts[group]) for group, part in self.parts.items()}, SCALAR)

    def env_action(self, sample: Tensor) -> Tensor:
        """Return the actions in environment units, [B, …]."""
        return self._each(lambda part, rows: part.env_action(rows), self._action, sample)

    def from_env_action(self, action: Tensor) -> Tensor:
        """Return the samples for actions in environment units, [B, …]."""
        return self._each(lambda part, rows: part.from_env_action(rows), self._sample, action)

    def _each(self, ask: Callable[[Distribution, Tensor], Tensor], blank: Blank, leaf: Tensor) -> Tensor:
        return self.route.put(
            {group: ask(part, self.route.take(group, leaf)) for group, part in self.parts.items()}, blank
        )
