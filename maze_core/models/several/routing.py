"""Routes: the rows of a batch that belong to each group, and results of groups as one batch again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor


class Blank(NamedTuple):
    """What rows of other groups hold: zeros of this shape and dtype."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @staticmethod
    def like(rows: Tensor) -> Blank:
        """Return the blank of leaves like these rows [B, …]."""
        return Blank(tuple(rows.shape[1:]), rows.dtype)


SCALAR = Blank((), torch.float32)


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
