"""Discrete distributions against torch.distributions, enumeration and sampling frequencies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import distributions as oracle

from maze_core.models.distributions import Bernoulli, Categorical, MultiCategorical
from maze_core.models.distributions.discrete import pad_choices


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random(*shape: int, seed: int = 0, scale: float = 1.5) -> torch.Tensor:
    return scale * torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    expected = probabilities * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


def test_categorical_agrees_with_torch():
    logits, other = random(7, 5), random(7, 5, seed=1)
    ours, theirs = Categorical(logits), oracle.Categorical(logits=logits)
    actions = torch.arange(7) % 5
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    expected = oracle.kl_divergence(theirs, oracle.Categorical(logits=other))
    torch.testing.assert_close(ours.kl(Categorical(other)), expected)
    assert ours.mode().equal(theirs.probs.argmax(-1))


def test_bernoulli_agrees_with_torch():
    logits, other = random(7, 5), random(7, 5, seed=1)
    ours, theirs = Bernoulli(logits), oracle.Independent(oracle.Bernoulli(logits=logits), 1)
    bits = (random(7, 5, seed=2) > 0).to(torch.int8)
    torch.testing.assert_close(ours.log_prob(bits), theirs.log_prob(bits.double()))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    expected = oracle.kl_divergence(theirs.base_dist, oracle.Bernoulli(logits=other)).sum(-1)
    torch.testing.assert_close(ours.kl(Bernoulli(other)), expected)
    assert ours.mode().equal((theirs.mean > 0.5).to(torch.int8))


@pytest.mark.parametrize("nvec", [(3, 3), (2, 4, 3)])
def test_multi_categorical_equals_the_enumerated_joint(nvec):
    slots = torch.tensor([row * max(nvec) + i for row, n in enumerate(nvec) for i in range(n)])
    flat = random(1, sum(nvec))
    ours = MultiCategorical(pad_choices(flat, slots, (len(nvec), max(nvec))))
    parts = [oracle.Categorical(logits=part) for part in flat.split(nvec, -1)]
    joint = torch.tensor(list(itertools.product(*(range(n) for n in nvec))))
    expected = sum(part.log_prob(joint[:, i]) for i, part in enumerate(parts))
    got = torch.cat([ours.log_prob(row.unsqueeze(0)) for row in joint])
    torch.testing.assert_close(got, expected)
    assert got.exp().sum().item() == pytest.approx(1.0)
    assert ours.entropy().item() == pytest.approx(-(got.exp() * got).sum().item())
    assert ours.mode()[0].equal(joint[got.argmax()])


def test_samples_have_the_stated_frequencies():
    n = 40_000
    logits = torch.tensor([0.0, 1.0, -1.0, 0.5])
    noise = Categorical.draw_noise((n, 4), generator())
    counts = np.bincount(Categorical(logits.expand(n, 4)).sample(noise), minlength=4)
    assert chi_square(counts, logits.softmax(-1).double().numpy()) < 16.3  # 3 degrees of freedom, p = 0.001
    bits = Bernoulli(logits.expand(n, 4)).sample(Bernoulli.draw_noise((n, 4), generator()))
    frequency = bits.double().mean(0)
    p = logits.sigmoid().double()
    assert ((frequency - p).abs() < 3.5 * (p * (1 - p) / n).sqrt()).all()
    # Bits are drawn independently: a joint frequency is the product.
    assert (bits[:, 0] * bits[:, 1]).double().mean().item() == pytest.approx((p[0] * p[1]).item(), abs=0.01)


def test_multi_categorical_never_samples_a_choice_that_does_not_exist():
    nvec, n = (2, 5, 3), 5_000
    slots = torch.tensor([row * 5 + i for row, k in enumerate(nvec) for i in range(k)])
    distribution = MultiCategorical(pad_choices(torch.zeros(n, sum(nvec)), slots, (3, 5)))
    samples = distribution.sample(MultiCategorical.draw_noise((n, 3, 5), generator()))
    assert samples.max(0).values.tolist() == [1, 4, 2]
    for member, k in enumerate(nvec):
        counts = np.bincount(samples[:, member], minlength=k)
        assert chi_square(counts, np.full(k, 1 / k)) < 20


@given(
    st.lists(st.booleans(), min_size=2, max_size=6).filter(any),
    st.lists(st.floats(-50, 50), min_size=6, max_size=6),
    st.integers(0, 2**31),
)
@settings(max_examples=60, deadline=None)
def test_masked_choices_have_no_probability_and_finite_gradients(mask, values, seed):
    n = len(mask)
    logits = torch.tensor([values[:n]], requires_grad=True)
    allowed = torch.tensor([mask])
    distribution = Categorical(logits, allowed.to(torch.int8))
    assert (distribution.log_probs.exp()[~allowed] == 0).all()
    kept = torch.tensor([[value for value, ok in zip(values, mask, strict=False) if ok]])
    torch.testing.assert_close(distribution.entropy(), oracle.Categorical(logits=kept).entropy(), atol=1e-5, rtol=1e-4)
    noise = Categorical.draw_noise((1, n), generator(seed))
    action = distribution.sample(noise)
    assert allowed[0, action]
    assert allowed[0, distribution.mode()]
    other = Categorical(torch.zeros(1, n), allowed)
    (distribution.log_prob(action) + distribution.entropy() + distribution.kl(other)).sum().backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad[~allowed] == 0).all()


def test_a_row_without_choices_stays_finite():
    logits = torch.randn(2, 3, requires_grad=True)
    distribution = Categorical(logits, torch.zeros(2, 3))
    total = distribution.log_prob(torch.tensor([0, 2])) + distribution.entropy()
    assert total.isfinite().all()
    total.sum().backward()
    assert logits.grad.isfinite().all()


def test_masked_bits_stay_zero_with_finite_gradients():
    logits = torch.full((1000, 2), 3.0, requires_grad=True)
    distribution = Bernoulli(logits, torch.tensor([1, 0]))
    bits = distribution.sample(Bernoulli.draw_noise((1000, 2), generator()))
    assert bits[:, 0].sum() > 900
    assert bits[:, 1].sum() == 0
    assert distribution.mode()[0].tolist() == [1, 0]
    expected = oracle.Bernoulli(logits=torch.tensor(3.0))
    torch.testing.assert_close(distribution.entropy()[0], expected.entropy())
    (distribution.log_prob(bits) + distribution.entropy()).sum().backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad[:, 1] == 0).all()


def test_gradients_of_categorical_and_bernoulli():
    logits, actions = random(3, 4).requires_grad_(), torch.tensor([0, 3, 1])
    bits = torch.tensor([[0, 1, 1, 0]] * 3, dtype=torch.int8)
    for build, sample in ((Categorical, actions), (Bernoulli, bits)):
        assert torch.autograd.gradcheck(lambda x, b=build, s=sample: b(x).log_prob(s), logits)
        assert torch.autograd.gradcheck(lambda x, b=build: b(x).entropy(), logits)
        assert torch.autograd.gradcheck(lambda x, b=build: b(x).kl(b(random(3, 4, seed=5))), logits)
