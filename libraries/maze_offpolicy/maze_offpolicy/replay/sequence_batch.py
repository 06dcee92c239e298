"""The batch of sequences that were drawn from replay: their rows, and what follows each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from maze_core import Batch, Sequences, to_tensors
from maze_core.base.tree import select_rows, to_device
from maze_offpolicy.replay.look_ahead import look_ahead

if TYPE_CHECKING:
    import torch

    from maze_offpolicy.replay.buffer import ReplayBuffer
    from maze_offpolicy.replay.selectors import Drawn


def sequence_batch(
    buffer: ReplayBuffer,
    drawn: Drawn,
    sequences: Sequences,
    gamma: float,
    n_step: int,
    device: torch.device | None,
) -> Batch:
    """Return the batch of the sequences that were drawn; arguments as for `ReplayBuffer.sample`."""
    lengths, starts = sequences.lengths, sequences.starts
    time = np.arange(len(drawn.slots)) - np.repeat(starts, lengths)
    left = np.repeat(lengths, lengths) - time
    reward, discount, _, summed = look_ahead(buffer.steps_of, drawn.slots, gamma, n_step, left)
    told = buffer.told(drawn.slots, gamma, n_step, left=left)
    place = np.repeat(starts + np.arange(len(lengths)), lengths) + time
    here, there = to_tensors({"here": place, "there": place + summed}, device).values()
    ends = starts + lengths
    slots = np.insert(drawn.slots, ends, buffer.steps_of.following(drawn.slots[ends - 1]))
    seen = to_tensors(buffer.observations(slots), device)
    memories = sequences.memories if device is None else to_device(sequences.memories, device)
    return Batch(
        select_rows(seen, here),
        to_tensors(buffer.actions(drawn.slots), device),
        to_tensors({"reward": reward, "discount": discount, **told, **drawn.extra}, device),
        select_rows(seen, there),
        sequences=replace(Sequences.of_networks(lengths, memories), obs=seen, following=there),
    )
