"""Values of a rollout under a policy that remembers, and the sequences to learn from."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from maze_core import Sequences, to_tensors
from maze_core.base.tree import select_rows, with_rows
from maze_core.data.batch import concat_tensors
from maze_onpolicy.data.pieces import Pieces, following_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from maze_core import Policy, Rollout, TensorTree


def remembered_values(
    policy: Policy,
    rollout: Rollout,
    obs: TensorTree,
    sequence_length: int | None = None,
    *,
    baseline: bool = True,
) -> tuple[np.ndarray, np.ndarray, Sequences]:
    """Return values before and after each step, [T, N], and the rollout's valid rows as sequences.

    One pass without gradients reads each piece of an episode together with the observation after its last row, so an
    episode that a time limit cut is bootstrapped with the memory of its last step.

    Args:
        policy: remembers, and has a critic, unless `baseline` is False.
        rollout: T steps of N environments.
        obs: the rollout's observations on the policy's device, leaves [(T + 1) * N, …].
        sequence_length: most rows of a sequence; None: as many as a piece has.
        baseline: False: all values are 0.

    Returns:
        Values, values of the following observations, and sequences whose `order` holds row numbers t * N + column.
    """
    steps, columns = rollout.rewards.shape
    device = next(iter(obs.values())).device
    pieces = Pieces.of(rollout.valid, rollout.terminated | rollout.truncated)
    memory = to_tensors(rollout.memory)
    state = pieces.states(policy.initial_state(len(pieces.columns)), memory)
    everything = _with_final(obs, rollout, device)
    values, last_values = np.zeros(steps * columns, np.float32), np.zeros(len(pieces.columns), np.float32)
    found: list[tuple[_Part, TensorTree]] = []
    for part in _parts(rollout, pieces, sequence_length):
        chosen = torch.from_numpy(part.pieces).to(device)
        before = select_rows(state, chosen)
        rows = torch.from_numpy(part.read).to(device)
        with torch.no_grad():
            read = select_rows(everything, rows)
            read_as = Sequences(part.read_lengths, before)
            if baseline:
                _, value, after = policy.unroll(read, read_as)
            else:
                value, after = torch.zeros(len(part.read)), policy.state_after(read, read_as)
        found_values = value.numpy(force=True)
        values[part.rows] = found_values[~part.beyond]
        last_values[part.pieces[part.goes_beyond]] = found_values[part.beyond]
        state = with_rows(state, chosen, after)
        found.append((part, before))
    values = values.reshape(steps, columns)
    next_values = np.concatenate([values[1:], np.zeros((1, columns), np.float32)])
    next_values[pieces.first + pieces.lengths - 1, pieces.columns] = last_values
    return values, next_values, _joined(found, device)


def all_rows(policy: Policy, rollout: Rollout) -> Sequences:
    """Return all T * N rows of a rollout as sequences, filler rows as sequences of one; `order` as above."""
    cut = rollout.terminated | rollout.truncated | ~rollout.valid
    pieces = Pieces.of(np.ones_like(cut), cut)
    memory = to_tensors(rollout.memory)
    state = pieces.states(policy.initial_state(len(pieces.columns)), memory)
    return Sequences(pieces.lengths, state, torch.from_numpy(pieces.rows(cut.shape[1])))


def twice_differentiable(sequences: Sequences | None) -> AbstractContextManager[None]:
    """Return a block in which gradients of rows can be differentiated once more: cuDNN's recurrent networks cannot."""
    return nullcontext() if sequences is None else torch.backends.cudnn.flags(enabled=False)


@dataclass(slots=True)
class _Part:
    """The same stretch of several pieces: S sequences of B rows."""

    pieces: np.ndarray
    """[S], their numbers."""
    lengths: np.ndarray
    """[S], rows."""
    rows: np.ndarray
    """[B], numbers of the rows, sequence by sequence."""
    read: np.ndarray
    """`rows`, and after the last row of a piece the observation that follows it."""
    read_lengths: np.ndarray
    """[S]"""
    beyond: np.ndarray
    """True where `read` has a following observation."""
    goes_beyond: np.ndarray
    """[S], True where a sequence has one."""


def _parts(rollout: Rollout, pieces: Pieces, length: int | None) -> Iterator[_Part]:
    """Yield the first rows of all pieces, at most `length`, then the next ones, and so on."""
    following = following_rows(rollout, pieces)
    rows = np.split(pieces.rows(rollout.rewards.shape[1]), pieces.lengths.cumsum()[:-1])
    longest = int(pieces.lengths.max(initial=0))
    length = length or max(longest, 1)
    for start in range(0, longest, length):
        alive = np.flatnonzero(pieces.lengths > start)
        taken = [rows[piece][start : start + length] for piece in alive]
        lengths = np.array([len(each) for each in taken])
        more = (pieces.lengths[alive] == start + lengths) & (following[alive] >= 0)
        read_lengths = lengths + more
        beyond = np.zeros(read_lengths.sum(), bool)
        beyond[read_lengths.cumsum()[more] - 1] = True
        read = np.empty(len(beyond), np.int64)
        read[~beyond], read[beyond] = np.concatenate(taken), following[alive][more]
        yield _Part(alive, lengths, read[~beyond], read, read_lengths, beyond, more)


def _with_final(obs: TensorTree, rollout: Rollout, device: torch.device) -> TensorTree:
    """Return the observations, followed by the final ones of the episodes that were cut."""
    return {
        key: torch.cat([leaf, *(torch.from_numpy(final[key]).to(device) for _, _, final in rollout.truncations)])
        for key, leaf in obs.items()
    }


def _joined(found: list[tuple[_Part, TensorTree]], device: torch.device) -> Sequences:
    if not found:
        return Sequences(np.zeros(0, np.int64), {}, torch.zeros(0, dtype=torch.int64, device=device))
    state = concat_tensors([before for _, before in found])
    order = torch.from_numpy(np.concatenate([part.rows for part, _ in found])).to(device)
    return Sequences(np.concatenate([part.lengths for part, _ in found]), state, order)
