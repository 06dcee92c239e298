"""A batch of rows and the loss computed from it: passed between algorithm, training loop and hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from maze_core.base.tree import TensorTree, map_tree

if TYPE_CHECKING:
    from maze_core.data.sequences import Sequences

ROW_WEIGHT = "row_weight"
"""The leaf of `Batch.extra` with the weight of each row in the loss, [B], summing to 1; without it all weigh alike."""


@dataclass(slots=True)
class OwnStep:
    """A step that an algorithm takes itself, without an optimizer: yielded from `batches()` in the place of a batch.

    The learner calls `take` once, counts it as a step, and looks whether the parameters are finite. Gradients are None
    before and after it. The limit of the gradient's norm does not apply: the algorithm decides how far it goes. A run
    with several learners refuses it.
    """

    take: Callable[[], Mapping[str, Tensor]]
    """Sets the parameters, and returns scalars to log, as those of `Loss.metrics`."""
    parameters: Sequence[Tensor]
    """The parameters that it may set."""


@dataclass(slots=True)
class Batch:
    """Rows to learn from; every tensor has B rows in its first dimension.

    An algorithm fills the fields that its loss needs and puts advantages, targets or importance weights in `extra`.
    A loss wrapper may rely on `obs`, and on `actions` where the algorithm learns from actions.
    """

    obs: TensorTree
    """Leaves [B, …] in storage dtype (uint8 images stay uint8)."""
    actions: TensorTree
    """Leaves [B, …], as sampled by the action distribution; in environment units where they come from replay."""
    extra: TensorTree = field(default_factory=dict)
    """Further inputs of the algorithm's loss, leaves [B, …]."""
    next_obs: TensorTree = field(default_factory=dict)
    """The observations after `obs`, leaves [B, …], where the algorithm learns from transitions."""
    objective: str = ""
    """What `compute_loss` is asked for, in algorithms that take turns between objectives, such as critic and actor."""
    group: str | None = None
    """Name of the optimizer's parameter group that learns from this batch; None: all groups."""
    sequences: Sequences | None = None
    """Which rows follow each other, for a policy that remembers: `policy(batch.obs, batch.sequences)`. None for other
    policies."""

    def __len__(self) -> int:
        """Return the number of rows B."""
        for leaf in (self.obs or self.actions or self.extra or self.next_obs).values():
            return leaf.shape[0]
        return 0

    @property
    def leaves(self) -> list[Tensor]:
        """The tensors with B rows."""
        return [leaf for tree in (self.obs, self.actions, self.extra, self.next_obs) for leaf in tree.values()]

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """Return the batch with `function` applied to every tensor with B rows. It must keep the rows of sequences."""
        return Batch(
            map_tree(function, self.obs),
            map_tree(function, self.actions),
            map_tree(function, self.extra),
            map_tree(function, self.next_obs),
            self.objective,
            self.group,
            self.sequences,
        )

    def minibatches(self, batch_size: int, rng: np.random.Generator) -> Iterator[Batch]:
        """Yield all rows once in random order, `batch_size` rows at a time.

        The last minibatch holds the remainder. A remainder of one row joins the minibatch before it: nothing can
        be normalised over a single row. Sequences stay whole, so minibatches have about `batch_size` rows.
        """
        if self.sequences is not None:
            yield from self._whole_sequences(self.sequences, batch_size, rng)
            return
        rows = len(self)
        order = torch.from_numpy(rng.permutation(rows))
        sizes = [min(batch_size, rows - start) for start in range(0, rows, batch_size)]
        if batch_size > 1 and len(sizes) > 1 and sizes[-1] == 1:
            sizes[-2:] = [batch_size + 1]
        # One gather for the whole pass; the minibatches are views of its result.
        places = {device: order.to(device) for device in {leaf.device for leaf in self.leaves}}
        shuffled = self.map(lambda leaf: leaf.index_select(0, places[leaf.device]))
        trees = [_split(tree, sizes) for tree in (shuffled.obs, shuffled.actions, shuffled.extra, shuffled.next_obs)]
        for obs, actions, extra, next_obs in zip(*trees, strict=True):
            yield Batch(obs, actions, extra, next_obs, self.objective, self.group)

    def _whole_sequences(self, sequences: Sequences, batch_size: int, rng: np.random.Generator) -> Iterator[Batch]:
        """Yield all sequences once in random order, each whole."""
        order = rng.permutation(len(sequences))
        ends = sequences.lengths[order].cumsum()
        # A sequence belongs to the minibatch in which its middle lies.
        middles = ends - sequences.lengths[order] / 2
        count = max(1, round(len(self) / batch_size))
        parts = (middles * count // max(len(self), 1)).astype(np.int64)
        for chosen in (order[parts == part] for part in np.unique(parts)):
            yield _of_sequences(self, sequences, chosen)


def _of_sequences(batch: Batch, sequences: Sequences, chosen: np.ndarray) -> Batch:
    """Return the rows of some of a batch's sequences, by their numbers, each whole."""
    lengths, starts = sequences.lengths[chosen], sequences.starts[chosen]
    within = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)
    places = torch.from_numpy(np.repeat(starts, lengths) + within).to(batch.leaves[0].device)
    rows = places if sequences.order is None else sequences.order[places]
    part = batch.map(lambda leaf: leaf.index_select(0, rows))
    part.sequences = sequences.alone(chosen)
    return part


@dataclass(frozen=True, slots=True)
class BatchShare:
    """The part of a batch that one of several learners learns from."""

    batch: Batch
    weight: float
    """The loss of the whole batch is the mean of the losses of its shares, weighted by this."""


def even_shares(batch: Batch, count: int) -> list[BatchShare]:
    """Return `count` shares of consecutive rows, or of whole sequences, weighted by their rows.

    The first is the largest, and the last ones are empty where there are too few rows.
    """
    if batch.sequences is not None:
        return _shares_of_sequences(batch, batch.sequences, count)
    parts = even_parts(len(batch), count)
    shares = [batch.map(lambda leaf, rows=slice(*part): leaf[rows]) for part in parts]  # type: ignore[misc]
    return [BatchShare(share, end - start) for share, (start, end) in zip(shares, parts, strict=True)]


def even_parts(rows: int, count: int) -> list[tuple[int, int]]:
    """Return where each of `count` even parts of some rows begins and ends; larger parts come first."""
    bounds = [-(-rows * number // count) for number in range(count + 1)]
    return list(pairwise(bounds))


def _shares_of_sequences(batch: Batch, sequences: Sequences, count: int) -> list[BatchShare]:
    """Return shares of consecutive sequences; a sequence belongs to the share in which its middle lies."""
    middles = sequences.lengths.cumsum() - sequences.lengths / 2
    of = (middles * count // max(len(batch), 1)).astype(np.int64)
    of -= of.min(initial=count)  # the first share, which is the driver's, is never empty
    parts = [_of_sequences(batch, sequences, np.flatnonzero(of == number)) for number in range(count)]
    return [BatchShare(part, len(part)) for part in parts]


def joined(batches: Sequence[Batch]) -> Batch:
    """Return the rows of all batches in one, with the leaves that all of them have."""

    def all_rows(trees: Sequence[TensorTree]) -> TensorTree:
        return {key: torch.cat([tree[key] for tree in trees]) for key in trees[0] if all(key in tree for tree in trees)}

    names = ("obs", "actions", "extra", "next_obs")
    obs, actions, extra, next_obs = (all_rows([getattr(each, name) for each in batches]) for name in names)
    return Batch(obs, actions, extra, next_obs)


def _split(tree: TensorTree, sizes: list[int]) -> list[TensorTree]:
    """Return consecutive parts of a tree, with `sizes` rows each."""
    columns = [torch.split(leaf, sizes) for leaf in tree.values()]
    return [{key: parts[number] for key, parts in zip(tree, columns, strict=True)} for number in range(len(sizes))]


def mean_of_rows(values: Tensor, extra: TensorTree) -> Tensor:
    """Return the mean of [..., B] over its rows, shape [...], by the weights that `extra` may hold as `ROW_WEIGHT`."""
    return weighted_mean(values, extra.get(ROW_WEIGHT))


def weighted_mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean of [..., B] over its rows, shape [...]; `weight`: [B], summing to 1; None: equal weights."""
    # A compiler joins the product with what computes the values, other than a matrix product.
    return values.mean(-1) if weight is None else (values * weight).sum(-1)


@dataclass(frozen=True, slots=True)
class Loss:
    """A scalar objective to minimise and its parts, for the log."""

    total: Tensor
    """Shape (), differentiable."""
    metrics: TensorTree = field(default_factory=dict)
    """Detached scalars by name; they are averaged over the epoch and logged as `loss/NAME`."""

    def plus(self, name: str, term: Tensor) -> Loss:
        """Return this loss with a term added to the total and to the metrics."""
        return Loss(self.total + term, {**self.metrics, name: term.detach()})


def to_tensors(tree: Mapping[str, np.ndarray | Tensor], device: torch.device | None = None) -> TensorTree:
    """Return tensors on a device; on the CPU they share the memory of the arrays. Tensors stay where they are there."""
    tensors = {key: leaf if isinstance(leaf, Tensor) else torch.from_numpy(leaf) for key, leaf in tree.items()}
    if device is None or device.type == "cpu":
        return tensors
    # Pinned memory is copied while the device works on.
    return {
        key: (leaf.pin_memory() if leaf.device.type == "cpu" else leaf).to(device, non_blocking=True)
        for key, leaf in tensors.items()
    }


def concat_tensors(trees: Sequence[Mapping[str, Tensor]]) -> TensorTree:
    """Return trees of the same keys joined along the first axis of their leaves."""
    return {key: torch.cat([tree[key] for tree in trees]) for key in trees[0]}
