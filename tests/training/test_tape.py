"""A recording of operations computes what the code does, and so does what is computed in their place."""

import pytest
import torch
from maze_compile.compiler import graph_of
from maze_compile.steps import CannotRepeatError
from maze_compile.tape import Tape


def replayed(function, first, second):
    """Return what a recording of `function(first)` computes for `second`, and what the function does."""
    tape = Tape([first])
    with tape:
        outputs = [function(first)]
    module, examples = graph_of(tape.description(outputs))
    assert [each.shape for each in examples] == [each.shape for each in [first, *tape.constants]]
    return module(second, *(draw() for draw in tape.draws), *tape.constants)[0], function(second)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sort(0).values.chunk(2)[1] + x.max(0).values,
        lambda x: torch.stack([x, x.t().contiguous().t()]).to(torch.float64).clamp(min=-0.5),
        lambda x: x.clone().mul_(3).add_(x[:, :1]).index_select(0, torch.tensor([2, 0])),
        lambda x: x[torch.tensor([1, 1, 3])].as_strided((2, 2), (1, 2)) * float("inf"),
        lambda x: torch.where(x > 0, x, torch.zeros(())).logsumexp(-1, keepdim=True),
        lambda x: torch.nn.functional.conv2d(x[None, None], torch.ones(1, 1, 2, 2)),
    ],
)
def test_it_computes_the_same_for_other_numbers(function):
    found, wanted = replayed(function, torch.randn(4, 4), torch.randn(4, 4))
    assert torch.equal(found, wanted)


def replaced(function, *examples):
    """Return the names of the operations that a recording consists of, what it computes, and what is right."""
    tape = Tape(list(examples))
    with tape:
        outputs = [function(*examples)]
    module, _ = graph_of(tape.description(outputs))
    names = {str(node.target) for node in module.graph.nodes}
    return names, module(*examples, *tape.constants)[0], function(*examples)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_tanh_of_its_own_has_the_precision_of_float32(in_place):
    sizes = torch.cat([torch.logspace(-30, 1, 4000), torch.linspace(0, 12, 4000), torch.tensor([float("inf")])])
    x = torch.cat([sizes, -sizes])

    def function(x):
        return (x * 1.0).tanh_() if in_place else x.tanh()

    names, found, wanted = replaced(function, x)
    assert not any("tanh" in name for name in names)
    torch.testing.assert_close(found, wanted, rtol=5e-7, atol=0)
    assert found.abs().max() <= 1
    _, found, _ = replaced(function, torch.tensor([float("nan"), 1.0]))
    assert found[0].isnan()
    names, found, wanted = replaced(function, x.double())
    assert any("tanh" in name for name in names)
    assert torch.equal(found, wanted)


@pytest.mark.parametrize(
    ("rows", "inputs", "units", "turned"),
    [(64, 3, 16, True), (5, 3, 64, True), (64, 16, 3, False), (2, 3, 64, False)],
)
def test_the_gradient_of_weights_of_few_inputs_is_computed_the_other_way_round(rows, inputs, units, turned):
    names, found, wanted = replaced(
        lambda slope, x: slope.t().mm(x), torch.randn(rows, units), torch.randn(rows, inputs)
    )
    assert ("aten.clone.default" in names) == turned
    assert found.is_contiguous()
    torch.testing.assert_close(found, wanted)


def test_numbers_are_drawn_anew_in_the_same_order():
    own = torch.Generator().manual_seed(3)

    def function(x):
        kept = torch.empty(4).normal_(generator=own)
        return x + torch.randn(4, generator=own) * torch.rand_like(x) + kept.uniform_(-1, 1, generator=own)

    first = torch.zeros(4)
    tape = Tape([first])
    with tape:
        outputs = [function(first)]
    module, _ = graph_of(tape.description(outputs))
    x, results = torch.randn(4), []
    for compute in (lambda: module(x, *(draw() for draw in tape.draws), *tape.constants)[0], lambda: function(x)):
        own.manual_seed(5)
        torch.manual_seed(6)
        results.append(compute())
    assert torch.equal(*results)


def test_what_it_cannot_write_down_is_refused():
    for function in (lambda x: x.nonzero(), lambda x: x.sum().item(), lambda x: torch.bernoulli(x)):
        with pytest.raises(CannotRepeatError), Tape([torch.ones(2)]):
            function(torch.ones(2))
