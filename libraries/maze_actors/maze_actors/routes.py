"""Routes: the rows of a batch that belong to each group, and results and distributions of groups as one batch again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from maze_core.models.distributions.base import Distribution


class Blank(NamedTuple):
    """What rows of other groups hold: zeros of this shape and dtype."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @staticmethod
    def like(rows: Tensor) -> Blank:
        """Return the blank of leaves like these rows [B, …]."""
        return Blank(tuple(rows.shape[1:]), rows.dtype)


SCALAR = Blank((), torch.float32)


def along(rows: Tensor, leaf: Tensor) -> Tensor:
    """Return what rows hold, [*rows], as a tensor that broadcasts with a leaf [*rows, …]."""
    return rows[(..., *[None] * (leaf.ndim - rows.ndim))]  # asks for no sizes: exported networks take any batch


class Route(Protocol):
    """Which of B rows belong to which group."""

    groups: tuple[int, ...]
    """The groups that are asked, by number."""

    def take(self, group: int, leaf: Tensor) -> Tensor:
        """Return the rows of a leaf [B, …] on which a group works."""

    def put(self, parts: Mapping[int, Tensor], blank: Blank) -> Tensor:
        """Return [B, …] with the results of some groups for their rows, and blanks in the other rows."""


class IndexRoute:
    """Each group works on its own rows only; groups without rows are not asked.

    `group_of_row`: [B] int64, the group of each row among `count`.
    """

    def __init__(self, group_of_row: Tensor, count: int) -> None:
        self._size, self._device = len(group_of_row), group_of_row.device
        rows = {group: (group_of_row == group).nonzero().squeeze(-1) for group in range(count)}
        self._rows = {group: index for group, index in rows.items() if len(index)}
        self.groups = tuple(self._rows)

    def rows(self, group: int) -> Tensor:
        """Return the numbers of the group's rows, rising."""
        return self._rows[group]

    def take(self, group: int, leaf: Tensor) -> Tensor:
        """Return the rows of the group."""
        return leaf if len(self.groups) == 1 else leaf.index_select(0, self._rows[group])

    def put(self, parts: Mapping[int, Tensor], blank: Blank) -> Tensor:
        """Return the results in the order of the rows."""
        if parts and len(self.groups) == 1:
            return next(iter(parts.values()))
        out = torch.zeros((self._size, *blank.shape), dtype=blank.dtype, device=self._device)
        for group, values in parts.items():
            out = out.index_copy(0, self._rows[group], values)
        return out


class DenseRoute:
    """Every group works on all rows, and each row's result is selected: for networks that are batched by `vmap`.

    Arguments as for `IndexRoute`.
    """

    def __init__(self, group_of_row: Tensor, count: int) -> None:
        self._group_of_row = group_of_row
        self.groups = tuple(range(count))

    def take(self, group: int, leaf: Tensor) -> Tensor:
        """Return all rows."""
        return leaf

    def put(self, parts: Mapping[int, Tensor], blank: Blank) -> Tensor:
        """Return the results, selected for each row."""
        # No sizes are asked for, so that exported networks take batches of any size.
        of = self._group_of_row
        out: Tensor | None = None
        for group, values in parts.items():
            mine = (of == group).reshape(-1, *[1] * len(blank.shape))
            out = torch.where(mine, values, torch.zeros_like(values) if out is None else out)
        return torch.zeros((len(of), *blank.shape), dtype=blank.dtype, device=of.device) if out is None else out


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
