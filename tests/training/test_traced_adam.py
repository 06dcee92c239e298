"""Adam in small operations against the kernel."""

from __future__ import annotations

import pytest
import torch
from maze_compile.traced_adam import TracedAdam
from maze_onpolicy.learn.rmsprop import RMSprop

from maze_core.learn.optimizers import Adam
from tests.training.optimizers import groups, parameters, train

TAKES = torch.tensor(True)


def all_tensors(optimizer, parameters):
    return [*parameters, *optimizer.tensors()]


def step(traced, gradients, takes=TAKES):
    """Take a step, as a compiled one does; return whether it was taken."""
    ready = traced.prepare()
    traced.step(torch.cat([each.flatten() for each in gradients]), takes)
    if ready and takes:
        traced.count()
    return ready


def test_steps_are_those_of_the_kernel_whatever_settings_change():
    ours, theirs = parameters(), parameters()
    optimizer, kernel = Adam(groups(ours), lr=3e-3), Adam(groups(theirs), lr=3e-3)
    traced = TracedAdam.of(optimizer, ours)
    generator = torch.Generator().manual_seed(1)
    for number in range(200):
        if number == 100:
            for each in (optimizer, kernel):
                each.param_groups[0].update(lr=0.1, betas=(0.5, 0.7), eps=1e-2)
        gradients = [torch.randn(p.shape, generator=generator) * 10.0 ** (number % 7 - 4) for p in ours]
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient
        kernel.step()
        assert step(traced, gradients)
        for mine, wanted in zip(all_tensors(optimizer, ours), all_tensors(kernel, theirs), strict=True):
            torch.testing.assert_close(mine, wanted, rtol=2e-5, atol=1e-6)
    saved = optimizer.state_dict()["state"]
    assert [saved[number]["step"].item() for number in range(3)] == [200.0] * 3
    assert any(leaf.abs().sum() > 0 for leaf in (saved[0]["exp_avg"], saved[2]["exp_avg_sq"]))


def test_both_kinds_of_steps_go_on_from_each_other():
    ours, theirs = parameters(), parameters()
    optimizer, kernel = Adam(ours, lr=1e-2), Adam(theirs, lr=1e-2)
    traced = TracedAdam.of(optimizer, ours)
    for seed in range(6):
        train(kernel, theirs, 1, seed)
        if seed % 2:
            step(traced, [p.grad for p in theirs])
        else:
            train(optimizer, ours, 1, seed)
    restored = Adam(parameters(), lr=1.0)
    restored.load_state_dict(optimizer.state_dict())
    for mine, wanted in zip(restored.tensors(), kernel.tensors(), strict=True):
        torch.testing.assert_close(mine, wanted)


def test_a_step_that_is_not_to_be_taken_changes_nothing():
    ours = parameters()
    optimizer = Adam(groups(ours))
    train(optimizer, ours, 3, seed=1)
    before = [each.detach().clone() for each in all_tensors(optimizer, ours)]
    gradients = [torch.full_like(p, float("nan")) for p in ours]
    assert step(TracedAdam.of(optimizer, ours), gradients, takes=torch.tensor(False))
    assert all(map(torch.equal, all_tensors(optimizer, ours), before))


def test_parameters_that_have_taken_other_numbers_of_steps_are_left_to_the_optimizer():
    ours = parameters()
    optimizer = Adam(groups(ours))
    traced = TracedAdam.of(optimizer, ours)
    train(optimizer, ours, 2, seed=1, skip=1)
    before = [each.detach().clone() for each in all_tensors(optimizer, ours)]
    assert not step(traced, [torch.ones_like(p) for p in ours])
    assert all(map(torch.equal, all_tensors(optimizer, ours), before))


def optimizers():
    plain = parameters()
    yield "all", Adam(groups(plain)), plain, True
    yield "one group", Adam(groups(plain)), plain[2:], True
    yield "a part of a group", Adam(groups(plain)), plain[1:], False
    yield "in another order", Adam(groups(plain)), [plain[2], *plain[:2]], False
    yield "none", Adam(groups(plain)), [*plain, *parameters()], False
    yield "another optimizer", RMSprop(plain, lr=1e-3), plain, False
    double = [torch.nn.Parameter(p.detach().double()) for p in plain]
    yield "of another precision", Adam(double), double, False
    turned = [torch.nn.Parameter(torch.randn(3, 4).t())]
    yield "not contiguous", Adam(turned), turned, False


@pytest.mark.parametrize(
    ("optimizer", "learning", "fits"), [pytest.param(*rest, id=name) for name, *rest in optimizers()]
)
def test_it_takes_whole_groups_of_adam(optimizer, learning, fits):
    assert (TracedAdam.of(optimizer, learning) is not None) == fits
