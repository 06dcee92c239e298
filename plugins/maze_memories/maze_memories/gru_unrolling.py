"""A gated recurrent unit over whole sequences, on the CPU a tenth of the time of torch's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


class GatedUnrolling(torch.autograd.Function):
    """h_t = n_t + z_t (h_{t-1} - n_t), as `torch.nn.GRU`, with its gradient written out (Cho et al., arXiv 1406.1078).

    r_t, z_t = sigmoid(inner + recurrent);  n_t = tanh(inner + r_t recurrent);  recurrent = W h_{t-1} + b.

    Torch records a dozen operations for each step of time; here each is a few calls of numpy on small arrays.
    """

    @staticmethod
    def forward(ctx: Any, inner: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Unroll S sequences over L steps.

        Args:
            ctx: keeps what the gradient needs.
            inner: [L, S, 3 * H], the inputs' terms of reset, update and new.
            hidden: [S, H], the state before the first step.
            weight: [3 * H, H]
            bias: [3 * H]

        Returns:
            [L, S, H], the state after each step.
        """
        terms, w, b = inner.detach().numpy(), np.ascontiguousarray(weight.detach().numpy().T), bias.detach().numpy()
        steps, count, size = len(terms), hidden.shape[0], hidden.shape[1]
        states = np.empty((steps + 1, count, size), np.float32)
        states[0] = hidden.detach().numpy()
        gates = np.empty((steps, count, 2 * size), np.float32)
        news, recurrent_news = (np.empty((steps, count, size), np.float32) for _ in range(2))
        for t in range(steps):
            recurrent = states[t] @ w
            recurrent += b
            recurrent_news[t] = recurrent[:, 2 * size :]
            gate = np.add(terms[t, :, : 2 * size], recurrent[:, : 2 * size], out=gates[t])
            # The sigmoid as tanh, which does not overflow.
            gate *= 0.5
            np.tanh(gate, gate)
            gate *= 0.5
            gate += 0.5
            new = np.multiply(gate[:, :size], recurrent_news[t], out=news[t])
            new += terms[t, :, 2 * size :]
            np.tanh(new, new)
            after = np.subtract(states[t], new, out=states[t + 1])
            after *= gate[:, size:]
            after += new
        ctx.save_for_backward(inner, hidden, weight, bias)
        ctx.kept = states, gates, news, recurrent_news
        return torch.from_numpy(states[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of `inner`, `hidden`, `weight` and `bias`."""
        if torch.is_grad_enabled():  # the gradient itself is to be differentiated
            return recorded_gradients(_recorded, ctx.saved_tensors, gradient)
        states, gates, news, recurrent_news = ctx.kept
        w = ctx.saved_tensors[2].detach().numpy()
        outer = gradient.numpy()
        steps, count, size = news.shape
        reset, update = gates[:, :, :size], gates[:, :, size:]
        # What does not depend on the state's gradient, for all steps at once.
        by_update = (states[:-1] - news) * update * (1 - update)
        by_new = (1 - update) * (1 - news * news)
        by_reset = recurrent_news * reset * (1 - reset)
        inner = np.empty((steps, count, 3 * size), np.float32)
        recurrent = np.empty_like(inner)
        hidden = np.zeros((count, size), np.float32)
        for t in range(steps - 1, -1, -1):
            hidden = hidden + outer[t]
            new = np.multiply(hidden, by_new[t], out=inner[t, :, 2 * size :])
            np.multiply(new, by_reset[t], out=recurrent[t, :, :size])
            np.multiply(hidden, by_update[t], out=recurrent[t, :, size : 2 * size])
            np.multiply(new, reset[t], out=recurrent[t, :, 2 * size :])
            hidden *= update[t]
            hidden += recurrent[t] @ w
        inner[:, :, : 2 * size] = recurrent[:, :, : 2 * size]
        flat = recurrent.reshape(-1, 3 * size)
        weight = flat.T @ states[:-1].reshape(-1, size)
        found = inner, hidden, weight, flat.sum(0)
        return tuple(torch.from_numpy(each) for each in found)


def recorded_gradients(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], gradient: Tensor
) -> tuple[Tensor | None, ...]:
    """Return the gradients of a function's inputs, with a graph; None for inputs that need none.

    Args:
        function: of operations that torch records.
        inputs: what it is called with.
        gradient: of its result.
    """
    learning = [each for each in inputs if each.requires_grad]
    found = iter(torch.autograd.grad(function(*inputs), learning, gradient, create_graph=True))
    return tuple(next(found) if each.requires_grad else None for each in inputs)


def _recorded(inner: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return what `GatedUnrolling.forward` does, by operations that torch records."""
    size, states = hidden.shape[-1], []
    for terms in inner.unbind():
        recurrent = F.linear(hidden, weight, bias)
        reset, update = torch.sigmoid(terms[:, : 2 * size] + recurrent[:, : 2 * size]).chunk(2, -1)
        new = torch.tanh(terms[:, 2 * size :] + reset * recurrent[:, 2 * size :])
        hidden = new + update * (hidden - new)
        states.append(hidden)
    return torch.stack(states)


def unrolled_gru(inner: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return the states [L, S, H]; arguments as for `GatedUnrolling.forward`. CPU and float32 only."""
    states: Tensor = GatedUnrolling.apply(inner, hidden, weight, bias)  # type: ignore[no-untyped-call]
    return states
