"""A gated linear recurrence over all rows at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maze_memories.gru_unrolling import recorded_gradients

_BLOCK = 16
"""Rows of a block. A block is stepped through row by row, all blocks at once; so are the states between blocks."""


class GatedScan(torch.autograd.Function):
    """h_t = f_t h_{t-1} + (1 - f_t) c_t with f = sigmoid(forget) and c = tanh(candidate), and its gradient.

    Torch would record a dozen operations on all rows; here few arrays are written.
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, begun: Tensor, starts: Tensor) -> Tensor:
        """Return the states after each row; arguments as for `gated_scan`."""
        forget, candidate = gates.chunk(2, -1)
        decays, values = torch.sigmoid(forget), torch.tanh(candidate)
        states = torch.addcmul(values, decays, values, value=-1)
        states.index_add_(0, starts, decays[starts] * begun)
        linear_scan_(decays.index_fill(0, starts, 0), states)
        ctx.save_for_backward(decays, values, states, starts, gates, begun)
        return states

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of `gates` and `begun`."""
        decays, values, states, starts, *inputs = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient itself is to be differentiated
            again = recorded_gradients(lambda gates, begun: _recorded(gates, begun, starts), inputs, gradient)
            return *again, None
        # The gradient of a state is that of its own row and what the next row passes on: the recurrence backwards.
        later = torch.empty_like(decays)
        later[:-1] = decays[1:]
        later.index_fill_(0, (starts - 1) % len(decays), 0)
        total = linear_scan_(later, gradient.clone(memory_format=torch.contiguous_format), backwards=True)
        begun = total[starts] * decays[starts]
        total.addcmul_(total, decays, value=-1)
        gates = torch.empty(len(decays), 2 * decays.shape[1], dtype=decays.dtype, device=decays.device)
        forget, candidate = gates.chunk(2, -1)
        # f (h_{t-1} - c) is h_t - c, which needs no division and no shift.
        torch.sub(states, values, out=forget).mul_(total)
        torch.addcmul(total, total, values.square(), value=-1, out=candidate)
        return gates, begun, None


class LinearScan(torch.autograd.Function):
    """h_t = decay_t h_{t-1} + input_t, or backwards; its gradient is such a scan, so it has gradients of any order."""

    @staticmethod
    def forward(ctx: Any, decays: Tensor, inputs: Tensor, backwards: bool) -> Tensor:
        """Return the states; arguments as for `linear_scan_`, of which nothing is overwritten."""
        copies = (leaf.clone(memory_format=torch.contiguous_format) for leaf in (decays, inputs))
        states = linear_scan_(*copies, backwards=backwards)
        ctx.save_for_backward(decays, states)
        ctx.backwards = backwards
        return states

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        """Return the gradients of `decays` and `inputs`."""
        decays, states = ctx.saved_tensors
        nothing, backwards = torch.zeros_like(states[:1]), ctx.backwards
        if backwards:
            later, before = torch.cat((nothing, decays[:-1])), torch.cat((states[1:], nothing))
        else:
            later, before = torch.cat((decays[1:], nothing)), torch.cat((nothing, states[:-1]))
        total: Tensor = LinearScan.apply(later, gradient, not backwards)  # type: ignore[no-untyped-call]
        return total * before, total, None


def _recorded(gates: Tensor, begun: Tensor, starts: Tensor) -> Tensor:
    """Return what `GatedScan.forward` does, by operations that torch records."""
    forget, candidate = gates.chunk(2, -1)
    decays = torch.sigmoid(forget)
    inputs = ((1 - decays) * torch.tanh(candidate)).index_add(0, starts, decays[starts] * begun)
    states: Tensor = LinearScan.apply(decays.index_fill(0, starts, 0), inputs, False)  # type: ignore[no-untyped-call]
    return states


def gated_scan(gates: Tensor, begun: Tensor, starts: Tensor) -> Tensor:
    """Return the states h after each row of S sequences that lie one after the other, [B, H].

    Args:
        gates: [B, 2 * H], forget and candidate before their sigmoid and tanh.
        begun: [S, H], the states before the sequences.
        starts: [S] int64, the first row of each sequence; no two are equal.
    """
    states: Tensor = GatedScan.apply(gates, begun, starts)  # type: ignore[no-untyped-call]
    return states


def linear_scan_(decays: Tensor, states: Tensor, *, backwards: bool = False) -> Tensor:
    """Return `states`, in which inputs were replaced by h_t = decay_t h_{t-1} + input_t; `decays` is overwritten.

    A blocked parallel scan (Blelloch 1990). Nothing is divided and no logarithm is taken, so a decay may be 0, where a
    sequence begins anew, and products of many small ones become 0 as they should.

    Args:
        decays: [L, …], contiguous, of size at most 1, so that states stay bounded.
        states: [L, …], contiguous, the inputs.
        backwards: h_t = decay_t h_{t+1} + input_t instead.
    """
    length = len(states)
    whole = length - length % _BLOCK
    if length <= 2 * _BLOCK:
        return _stepped(decays, states, range(length - 2, -1, -1) if backwards else range(1, length), backwards)
    if backwards and whole < length:
        _stepped(decays, states, range(length - 2, whole - 2, -1), backwards)
        decays[whole - 1].zero_()  # what comes later is in the state by now
    shape = (whole // _BLOCK, _BLOCK, *states.shape[1:])
    inner, products = states[:whole].view(shape), decays[:whole].view(shape)
    towards = -1 if backwards else 1
    for row in range(_BLOCK - 2, -1, -1) if backwards else range(1, _BLOCK):
        inner[:, row].addcmul_(products[:, row], inner[:, row - towards])
        products[:, row].mul_(products[:, row - towards])
    last = 0 if backwards else -1
    ends = linear_scan_(products[:, last].clone(), inner[:, last].clone(), backwards=backwards).unsqueeze(1)
    if backwards:
        inner[:-1].addcmul_(products[:-1], ends[1:])
    else:
        inner[1:].addcmul_(products[1:], ends[:-1])
        _stepped(decays, states, range(whole, length), backwards)
    return states


def _stepped(decays: Tensor, states: Tensor, rows: range, backwards: bool) -> Tensor:
    """Return `states`, in which the inputs of some rows, in this order, were replaced by states."""
    before = 1 if backwards else -1
    for row in rows:
        states[row].addcmul_(decays[row], states[row + before])
    return states
