"""The gated linear recurrence against one that steps."""

import numpy as np
import pytest
import torch
from maze_memories.linear import LinearConfig, LinearMemory
from maze_memories.scan import gated_scan, linear_scan_

from maze_core.data.sequences import Sequences


def stepped(memory, features, lengths, state):
    """Outputs and last states of sequences one after the other, row by row: an oracle."""
    rows, ends = [], []
    for number, own in enumerate(torch.split(features, list(lengths))):
        current = {"hidden": state["hidden"][number : number + 1]}
        for row in own:
            found, current = memory.step(row[None], current)
            rows.append(found)
        ends.append(current["hidden"])
    return torch.cat(rows), torch.cat(ends)


@pytest.mark.parametrize(
    ("layers", "lengths"), [(2, [1]), (1, [31, 2]), (2, [33, 1, 16, 15]), (2, [5] * 40), (1, [1024, 3])]
)
def test_the_scan_gives_what_steps_give(layers, lengths):
    torch.manual_seed(0)
    memory = LinearMemory(5, LinearConfig(size=6, layers=layers))
    for parameter in memory.parameters():
        torch.nn.init.normal_(parameter, std=1.0)
    features = torch.randn(sum(lengths), 5, requires_grad=True)
    state = {"hidden": torch.randn(len(lengths), layers, 6, requires_grad=True)}
    weights = torch.randn(sum(lengths), 6)

    def gradients(out):
        inputs = [features, state["hidden"], *memory.parameters()]
        first = torch.autograd.grad((out * weights).sum(), inputs, create_graph=True)
        second = torch.autograd.grad(sum(each.square().sum() for each in first), inputs, retain_graph=True)
        return [*first, *second, *torch.autograd.grad((out * weights).sum(), inputs)]

    mine, after = memory.after(features, Sequences(np.array(lengths), {}), state)
    wanted, ends = stepped(memory, features, lengths, state)
    torch.testing.assert_close(mine, wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(after["hidden"], ends, atol=1e-5, rtol=1e-5)
    for found, other in zip(gradients(mine), gradients(wanted), strict=True):
        torch.testing.assert_close(found, other, atol=1e-5 * max(1.0, other.abs().max().item()), rtol=1e-4)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_long_sequences_and_large_values_stay_exact(scale):
    """Gates that are shut or open to the last bit: products of a thousand decays underflow, and nothing overflows."""
    torch.manual_seed(0)
    gates = (torch.randn(2048, 8) * scale).requires_grad_()
    begun, starts = torch.randn(2, 4), torch.tensor([0, 1024])
    out = gated_scan(gates, begun, starts)
    (gradient,) = torch.autograd.grad(out.sum(), gates)
    exact = gates.detach().double()
    decays, values = torch.sigmoid(exact[:, :4]), torch.tanh(exact[:, 4:])
    state, states = begun[0].double(), []
    for row in range(2048):
        before = begun[1].double() if row == 1024 else state
        state = decays[row] * before + (1 - decays[row]) * values[row]
        states.append(state)
    torch.testing.assert_close(out.double(), torch.stack(states), atol=1e-5, rtol=1e-5)
    assert torch.isfinite(gradient).all()
    assert out.abs().max() <= max(1.0, float(begun.abs().max()))


@pytest.mark.parametrize("length", [1, 32, 33, 48, 700, 5000])
@pytest.mark.parametrize("backwards", [False, True])
def test_blocks_and_what_is_left_over_join(length, backwards):
    rng = torch.Generator().manual_seed(0)
    decays = torch.rand(length, 3, generator=rng, dtype=torch.float64)
    decays[::7] = 0
    inputs = torch.randn(length, 3, generator=rng, dtype=torch.float64)
    state, wanted = torch.zeros(3, dtype=torch.float64), torch.empty_like(inputs)
    for row in range(length - 1, -1, -1) if backwards else range(length):
        wanted[row] = state = decays[row] * state + inputs[row]
    found = linear_scan_(decays.clone(), inputs.clone(), backwards=backwards)
    torch.testing.assert_close(found, wanted)


def test_sequences_without_rows_keep_their_state():
    memory = LinearMemory(2, LinearConfig(size=3))
    state = {"hidden": torch.randn(3, 1, 3)}
    features = torch.randn(4, 2)
    _, after = memory.after(features, Sequences(np.array([2, 0, 2]), {}), state)
    assert torch.equal(after["hidden"][1], state["hidden"][1])
    _, ends = stepped(memory, features, [2, 2], {"hidden": state["hidden"][[0, 2]]})
    torch.testing.assert_close(after["hidden"][[0, 2]], ends)
