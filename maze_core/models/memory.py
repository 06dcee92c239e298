"""Memory: modules between encoder and heads that carry a state from row to row."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from maze_core.base.tree import take_rows
from maze_core.plugins.config.base import PluginConfig

if TYPE_CHECKING:
    from maze_core.base.tree import TensorTree
    from maze_core.data.sequences import Sequences
    from maze_core.models.distributions.base import TreeDistribution
    from maze_core.models.policy import Policy


class Memory(nn.Module):
    """Features of rows → features that also depend on the rows before them in the episode.

    A plugin of the group `maze.memories` is a subclass. It is built with `(in_features, config)`: the width F of the
    features and its settings. It sets `out_features`, the width of what it returns, and has `initial_state` and `step`;
    the rest follows from them. A memory that reads whole sequences faster than row by row overrides `after`, too.

    The state of a row is a dict of tensors with the rows first, of any shapes and dtypes. An episode begins with
    `initial_state`, which depends on nothing but the number of rows. Rows do not see each other.
    """

    Config: ClassVar[type[PluginConfig]] = PluginConfig
    """The memory's settings. Those called `size`, `layers` and `window` are set by `model.memory_size` and so on."""
    out_features: int
    """Width of the features that the heads see."""

    @abstractmethod
    def initial_state(self, rows: int) -> TensorTree:
        """Return the state at the beginning of an episode, leaves [rows, …], on the device of the parameters."""

    @abstractmethod
    def step(self, features: Tensor, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take one row of each stream: features [B, F], state leaves [B, …] → [B, out_features], the next state.

        Nothing is changed in place, and no control flow depends on values: the step is exported as it is.
        """

    def after(self, features: Tensor, sequences: Sequences, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take whole sequences, none of which crosses the beginning of an episode: the same as `step` row by row.

        Args:
            features: [B, F], sequence by sequence.
            sequences: the lengths of the S sequences, each at least 1; their sum is B.
            state: before the first row of each sequence, leaves [S, …].

        Returns:
            [B, out_features], sequence by sequence; the state after the last row of each, leaves [S, …], which
            gradients need not reach.
        """
        # All sequences step at once, the longest first: those that go on at a time step are the first `count`.
        places, counts, by_length = (leaf.to(features.device) for leaf in sequences.packed())
        current = take_rows(state, by_length)
        rows, begin = [features.new_zeros(0, self.out_features)], 0
        ended: list[TensorTree] = []
        for count in counts.tolist():
            ended.append(take_rows(current, slice(count, None)))
            found, current = self.step(features[places[begin : begin + count]], take_rows(current, slice(count)))
            rows.append(found)
            begin += count
        # So those that ended last come first, too.
        parts, back = [current, *reversed(ended)], by_length.argsort()
        return torch.cat(rows)[places.argsort()], {key: torch.cat([e[key] for e in parts])[back] for key in current}

    def unroll(self, features: Tensor, sequences: Sequences, state: TensorTree) -> Tensor:
        """Return the features that `after` returns, for a memory that is faster where the state is not asked for."""
        return self.after(features, sequences, state)[0]


def hears(policy: nn.Module) -> bool:
    """Return `policy.hears`: True where what was done, and paid for it, decides too. Policies may lack it."""
    return bool(getattr(policy, "hears", False))


def remembers(policy: nn.Module) -> bool:
    """Return `policy.remembers`: True where the rows before a row decide too. Policies without memory may lack it."""
    return bool(getattr(policy, "remembers", False))


def distribution_of(policy: Policy, obs: TensorTree, sequences: Sequences | None) -> TreeDistribution:
    """Return `policy.distribution` of rows; sequences go only to policies that remember."""
    return policy.distribution(obs) if sequences is None else policy.distribution(obs, sequences)


def value_of(policy: Policy, obs: TensorTree, sequences: Sequences | None) -> Tensor:
    """Return `policy.value` of rows, [B]; sequences go only to policies that remember."""
    return policy.value(obs) if sequences is None else policy.value(obs, sequences)


def separate_rows(policy: Policy, count: int) -> Sequences | None:
    """Return rows as sequences of one, each at the beginning of an episode; None for a policy without memory."""
    if not remembers(policy):
        return None
    from maze_core.data.sequences import Sequences

    return Sequences(np.ones(count, np.int64), policy.initial_state(count))
