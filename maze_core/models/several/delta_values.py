"""Values of the turns of a decision as sums: what each turn adds to the value of the turn before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core.data.sequences import Sequences


def summed_values(differences: Tensor, goes_on: Tensor, sequences: Sequences, before: Tensor) -> tuple[Tensor, Tensor]:
    """Return values [B], and the last value of each sequence [S].

    V_t = d_t + V_(t-1) where turn t goes on with the decision of the turn before, else V_t = d_t. The value of the turn
    before is a constant: only d_t has a gradient.

    Args:
        differences: [B], d_t of every row.
        goes_on: [B] bool.
        sequences: which rows follow each other.
        before: [S], the value of the row before each sequence; it counts where the first row goes on.
    """
    with torch.no_grad():
        # In float64: a sum over all rows, from which that over earlier decisions is subtracted.
        own = sequences.ordered(differences).double()
        follows = sequences.ordered(goes_on)
        firsts = torch.from_numpy(sequences.starts).to(own.device)
        begins = ~follows
        begins[firsts] = True
        earlier = own.cumsum(0) - own
        decision = begins.cumsum(0) - 1
        carried = own.new_zeros(int(begins.sum()))
        carried[decision[firsts]] = before.double() * follows[firsts]
        base = earlier - earlier[begins][decision] + carried[decision]
        lasts = firsts + torch.from_numpy(sequences.lengths).to(own.device) - 1
        last = (own + base)[lasts].float()
        base = sequences.restored(base.float())
    return differences + base, last
