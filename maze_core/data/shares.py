"""Shares: the parts of a batch that several learners learn from."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from maze_core.base.tree import TensorTree, select_rows
from maze_core.data.batch import Batch
from maze_core.data.sequences import Sequences

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a batch."""

    batch: Batch
    weight: float
    """The loss of the whole batch is the mean of the losses of its shares, weighted by this."""


def even_shares(batch: Batch, count: int) -> list[Share]:
    """Return `count` shares of consecutive rows, or of whole sequences, weighted by their rows.

    The first is the largest, and the last ones are empty where there are too few rows.
    """
    if batch.sequences is not None:
        return _shares_of_sequences(batch, batch.sequences, count)
    ends = _ends(len(batch), count)
    parts = [batch.map(lambda leaf, start=start, end=end: leaf[start:end]) for start, end in ends]  # type: ignore[misc]
    return [Share(part, end - start) for part, (start, end) in zip(parts, ends, strict=True)]


def shares_of_trajectories(batch: Batch, count: int, steps: int) -> list[Share]:
    """Return `count` shares of whole trajectories, weighted by the sum of their rows' `extra["weight"]`.

    Args:
        batch: T * B rows, time-major: the trajectory of row t * B + b is b.
        count: number of shares.
        steps: T.
    """
    columns = len(batch) // steps
    rows = torch.arange(steps * columns).reshape(steps, columns)
    shares = []
    for start, end in _ends(columns, count):
        chosen = rows[:, start:end].reshape(-1)
        part = batch.map(lambda leaf, chosen=chosen: leaf.index_select(0, chosen.to(leaf.device)))  # type: ignore[misc]
        if batch.sequences is not None:
            part.sequences = _of_columns(batch.sequences, columns, start, end)
        shares.append(Share(part, float(part.extra["weight"].sum())))
    if any(share.weight for share in shares):
        return shares
    return [Share(share.batch, len(share.batch)) for share in shares]  # filler rows only: all losses are 0


def _ends(rows: int, count: int) -> list[tuple[int, int]]:
    """Return where each of `count` even parts begins and ends; larger parts come first."""
    bounds = [-(-rows * number // count) for number in range(count + 1)]
    return list(pairwise(bounds))


def _shares_of_sequences(batch: Batch, sequences: Sequences, count: int) -> list[Share]:
    """Return shares of consecutive sequences; a sequence belongs to the share in which its middle lies."""
    middles = sequences.lengths.cumsum() - sequences.lengths / 2
    of = (middles * count // max(len(batch), 1)).astype(np.int64)
    of -= of.min(initial=count)  # the first share, which is the driver's, is never empty
    shares = []
    for number in range(count):
        chosen = np.flatnonzero(of == number)
        starts, lengths = sequences.starts[chosen], sequences.lengths[chosen]
        within = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)
        places = torch.from_numpy(np.repeat(starts, lengths) + within)
        rows = places if sequences.order is None else sequences.order.cpu()[places]
        part = batch.map(lambda leaf, rows=rows: leaf.index_select(0, rows.to(leaf.device)))  # type: ignore[misc]
        part.sequences = Sequences(lengths, _states(sequences, chosen))
        shares.append(Share(part, len(rows)))
    return shares


def _of_columns(sequences: Sequences, columns: int, start: int, end: int) -> Sequences:
    """Return the sequences of the trajectories from `start` to `end`, for a batch of these alone."""
    order = torch.arange(int(sequences.lengths.sum())) if sequences.order is None else sequences.order.cpu()
    of = (order % columns).numpy()
    mine = (of >= start) & (of < end)
    chosen = np.flatnonzero(mine[sequences.starts])
    rows = order[torch.from_numpy(mine)]
    places = rows // columns * (end - start) + rows % columns - start
    device = None if sequences.order is None else sequences.order.device
    return Sequences(sequences.lengths[chosen], _states(sequences, chosen), places.to(device))


def _states(sequences: Sequences, chosen: np.ndarray) -> TensorTree:
    index: Tensor = torch.from_numpy(chosen)
    return select_rows(sequences.state, index)
