"""The written-out gated recurrent unit against torch's."""

import numpy as np
import pytest
import torch
from maze_memories.recurrent import GruMemory, LstmMemory, RecurrentConfig

from maze_core.data.sequences import Sequences

MEMORIES = {"gru": GruMemory, "lstm": LstmMemory}


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("lengths", [[7, 1, 4], [5], [3, 3], [1, 1]])
def test_outputs_and_gradients_are_those_of_torch(kind, layers, lengths):
    torch.manual_seed(0)
    memory = MEMORIES[kind](5, RecurrentConfig(size=6, layers=layers))
    for parameter in memory.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    sequences = Sequences(np.array(lengths), {})
    features = torch.randn(sum(lengths), 5, requires_grad=True)
    state = {key: torch.randn(len(lengths), layers, 6, requires_grad=True) for key in memory.initial_state(1)}
    weights = torch.randn(sum(lengths), 6)

    def gradients(out):
        inputs = [features, *state.values(), *memory.parameters()]
        first = torch.autograd.grad((out * weights).sum() + out.square().sum(), inputs, create_graph=True)
        second = torch.autograd.grad(sum(each.square().sum() for each in first), inputs, retain_graph=True)
        fast = torch.autograd.grad((out * weights).sum() + out.square().sum(), inputs)
        return [*first, *fast], second

    mine = memory.unroll(features, sequences, state)
    # torch's own, one sequence after the other
    rows = torch.split(features, lengths)
    begun = [
        tuple(leaf[i : i + 1].transpose(0, 1).contiguous() for leaf in state.values()) for i in range(len(lengths))
    ]
    begun = begun if kind == "lstm" else [each[0] for each in begun]
    theirs = torch.cat([memory.network(row.unsqueeze(1), h)[0].squeeze(1) for row, h in zip(rows, begun, strict=True)])
    torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-5)
    (first, second), (theirs_first, theirs_second) = gradients(mine), gradients(theirs)
    for found, wanted in zip(first, theirs_first, strict=True):
        torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-4)
    for found, wanted in zip(second, theirs_second, strict=True):
        torch.testing.assert_close(found, wanted, atol=2e-5 * max(1.0, wanted.abs().max().item()), rtol=1e-4)


def test_long_sequences_and_large_values_stay_finite():
    memory = GruMemory(2, RecurrentConfig(size=3))
    features = (torch.randn(3000, 2) * 1e4).requires_grad_()
    out = memory.unroll(features, Sequences(np.array([3000]), {}), memory.initial_state(1))
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert torch.isfinite(features.grad).all()


def test_no_sequences_give_no_rows():
    memory = GruMemory(2, RecurrentConfig(size=3))
    assert memory.unroll(torch.zeros(0, 2), Sequences(np.zeros(0, np.int64), {}), memory.initial_state(0)).shape == (
        0,
        3,
    )
