"""Distributions over Boxes: densities in environment units, against torch.distributions and numerical integrals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from maze_models.beta import Beta
from torch import distributions as oracle

from maze_core.models.distributions import BoxScale, DiagonalGaussian, SquashedGaussian

ASYMMETRIC = Box(np.array([-3.0, 0.5], np.float32), np.array([1.0, 0.75], np.float32))


def scale_of(space: Box) -> BoxScale:
    return BoxScale(space).double()


def tensors(*rows: list[float]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor([row], dtype=torch.float64) for row in rows)


def build(kind: str, first: torch.Tensor, second: torch.Tensor, space: Box):
    """`first` and `second` are mean and log-std, or the two concentrations less 1, in log."""
    if kind == "beta":
        return Beta(1 + first.exp(), 1 + second.exp(), scale_of(space))
    return {"gaussian": DiagonalGaussian, "squashed": SquashedGaussian}[kind](first, second, scale_of(space))


def torch_twin(distribution) -> oracle.Distribution:
    """The same distribution over actions in environment units, by torch."""
    scale = distribution.scale
    if isinstance(distribution, Beta):
        base = oracle.Beta(distribution.alpha, distribution.beta)
        low = scale.centre - scale.radius
        transforms = [oracle.AffineTransform(low, 2 * scale.radius)]
    else:
        base = oracle.Normal(distribution.mean, distribution.log_std.exp())
        transforms = [oracle.AffineTransform(scale.centre, scale.radius)]
        if isinstance(distribution, SquashedGaussian):
            transforms.insert(0, oracle.TanhTransform(cache_size=1))
    return oracle.Independent(oracle.TransformedDistribution(base, transforms), 1)


KINDS = ["gaussian", "squashed", "beta"]


@pytest.mark.parametrize("kind", KINDS)
def test_log_density_agrees_with_torch(kind):
    distribution = build(kind, *tensors([0.3, -0.8], [-0.5, 0.2]), ASYMMETRIC)
    sample = torch.tensor([[0.6, 0.2]], dtype=torch.float64)
    expected = torch_twin(distribution).log_prob(distribution.env_action(sample))
    torch.testing.assert_close(distribution.log_prob(sample), expected)
    assert distribution.log_prob(sample).shape == (1,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("first", "second"), [(-1.0, 0.3), (0.0, 1.0), (0.7, -1.0), (0.7, 1.0)])
def test_density_and_entropy_are_those_of_the_action(kind, first, second):
    """Trapezoids over environment units: the density integrates to 1, -p log p to the entropy."""
    space = Box(-2.0, 5.0, (1,), np.float32)
    distribution = build(kind, *tensors([first], [second]), space)
    if kind == "squashed":  # Even steps before the tanh reach the density's spikes at the bounds.
        samples = torch.linspace(-40, 40, 400_001, dtype=torch.float64)
    elif kind == "beta":
        samples = torch.linspace(1e-9, 1 - 1e-9, 400_001, dtype=torch.float64)
    else:
        samples = torch.linspace(-40, 40, 400_001, dtype=torch.float64)
    actions = distribution.env_action(samples.unsqueeze(-1)).squeeze(-1)
    log_density = distribution.log_prob(samples.unsqueeze(-1))
    density = log_density.exp()
    assert torch.trapezoid(density, actions).item() == pytest.approx(1.0, abs=1e-4)
    entropy = torch.trapezoid(-density * log_density, actions).item()
    assert distribution.entropy().item() == pytest.approx(entropy, abs=2e-4)


def test_the_density_of_two_dimensions_integrates_to_one():
    distribution = build("squashed", *tensors([0.3, -0.8], [-0.5, -0.2]), ASYMMETRIC)
    axis = torch.linspace(-12, 12, 601, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    density = distribution.log_prob(grid).exp().reshape(601, 601)
    actions = distribution.env_action(torch.stack((axis, axis), -1))
    inner = torch.trapezoid(density, actions[:, 1], dim=1)
    assert torch.trapezoid(inner, actions[:, 0]).item() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_divergence_agrees_with_torch_and_is_zero_to_itself(kind):
    one = build(kind, *tensors([0.3, -0.8], [-0.5, 0.2]), ASYMMETRIC)
    two = build(kind, *tensors([-0.1, 0.4], [0.1, 0.3]), ASYMMETRIC)
    base = [torch_twin(d).base_dist.base_dist for d in (one, two)]
    torch.testing.assert_close(one.kl(two), oracle.kl_divergence(*base).sum(-1))
    assert one.kl(one).item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_from_env_action_inverts_env_action(kind):
    distribution = build(kind, *tensors([0.3, -0.8], [-0.5, 0.2]), ASYMMETRIC)
    noise = distribution.draw_noise((500, 2), torch.Generator().manual_seed(1)).double()
    samples = distribution.sample(noise)
    torch.testing.assert_close(distribution.from_env_action(distribution.env_action(samples)), samples)


@pytest.mark.parametrize("kind", KINDS)
def test_actions_on_the_bounds_have_finite_density(kind):
    distribution = build(kind, *tensors([0.3, -0.8], [-0.5, 0.2]), ASYMMETRIC)
    bounds = torch.as_tensor(np.stack([ASYMMETRIC.low, ASYMMETRIC.high])).double()
    samples = distribution.from_env_action(bounds)
    assert distribution.log_prob(samples).isfinite().all()
    torch.testing.assert_close(distribution.env_action(samples), bounds, atol=1e-5, rtol=0)


@pytest.mark.parametrize("value", [-20.0, 20.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_squashed_density_far_out_is_finite_and_exact(value, dtype):
    mean = torch.zeros(1, 1, dtype=dtype, requires_grad=True)
    log_std = torch.zeros(1, dtype=dtype, requires_grad=True)
    sample = torch.full((1, 1), value, dtype=dtype, requires_grad=True)
    log_prob = SquashedGaussian(mean, log_std, BoxScale(Box(-1, 1, (1,)))).log_prob(sample)
    # log N(20) - log(1 - tanh(20)^2), the latter being log 4 - 40 up to 1e-17.
    exact = -0.5 * 400 - 0.5 * np.log(2 * np.pi) - (np.log(4.0) - 40.0)
    assert log_prob.item() == pytest.approx(exact, rel=1e-6)
    log_prob.sum().backward()
    assert mean.grad.item() == pytest.approx(value)
    # d/du: -u from the normal, +2 tanh(u) from the Jacobian.
    assert sample.grad.item() == pytest.approx(-value + 2 * np.sign(value))
    assert log_std.grad.item() == pytest.approx(399.0)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind):
    inputs = tuple(t.requires_grad_() for t in tensors([0.3, -0.8], [-0.5, 0.2]))
    sample = torch.tensor([[0.6, 0.2]], dtype=torch.float64)
    other = build(kind, *tensors([-0.1, 0.4], [0.1, 0.3]), ASYMMETRIC)
    for function in (
        lambda d: d.log_prob(sample),
        lambda d: d.entropy(),
        lambda d: d.kl(other),
        lambda d: d.env_action(d.mode()),
    ):
        assert torch.autograd.gradcheck(lambda a, b, f=function: f(build(kind, a, b, ASYMMETRIC)), inputs)


@pytest.mark.parametrize("kind", ["gaussian", "squashed"])
def test_samples_are_differentiable_in_mean_and_std(kind):
    mean, log_std = (t.requires_grad_() for t in tensors([0.3, -0.8], [-0.5, 0.2]))
    noise = torch.tensor([[1.5, -0.5]], dtype=torch.float64)
    distribution = build(kind, mean, log_std, ASYMMETRIC)
    distribution.sample(noise).sum().backward()
    torch.testing.assert_close(mean.grad, torch.ones(1, 2, dtype=torch.float64))
    torch.testing.assert_close(log_std.grad, log_std.detach().exp() * noise)


@pytest.mark.parametrize("kind", KINDS)
def test_samples_fill_the_quantiles_evenly(kind):
    """The distribution function of torch's twin makes samples uniform: ten bins, chi-square."""
    n, space = 20_000, Box(-2.0, 5.0, (1,), np.float32)
    distribution = build(kind, *tensors([0.4], [0.3]), space)
    noise = distribution.draw_noise((n, 1), torch.Generator().manual_seed(3)).double()
    actions = distribution.env_action(distribution.sample(noise)).squeeze(-1)
    if kind == "beta":  # torch has no distribution function of Beta: sum its density instead.
        grid = torch.linspace(-2, 5, 100_001, dtype=torch.float64)[1:-1]
        density = torch_twin(distribution).log_prob(grid.unsqueeze(-1)).exp()
        cumulative = torch.cumsum(density, 0) * (grid[1] - grid[0])
        levels = cumulative[torch.searchsorted(grid, actions).clamp(max=len(grid) - 1)]
    else:
        levels = torch_twin(distribution).base_dist.cdf(actions.unsqueeze(-1)).squeeze(-1)
    counts = np.histogram(levels.numpy(), bins=10, range=(0, 1))[0]
    assert counts.sum() == n
    assert ((counts - n / 10) ** 2 / (n / 10)).sum() < 27.9  # 9 degrees of freedom, p = 0.001


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (1.0, 4.0), (30.0, 2.0), (200.0, 300.0)])
def test_beta_samples_have_its_mean_and_variance(alpha, beta):
    n = 20_000
    a, b = (torch.full((n, 1), value) for value in (alpha, beta))
    distribution = Beta(a, b, BoxScale(Box(0, 1, (1,))))
    samples = distribution.sample(Beta.draw_noise((n, 1), torch.Generator().manual_seed(5)))
    twin = oracle.Beta(alpha, beta)
    assert ((samples > 0) & (samples < 1)).all()
    assert samples.mean().item() == pytest.approx(twin.mean.item(), abs=4 * (twin.variance.item() / n) ** 0.5)
    assert samples.var().item() == pytest.approx(twin.variance.item(), rel=0.05)


def test_bounded_actions_stay_inside_and_canonical_units_map_to_the_bounds():
    scale = BoxScale(ASYMMETRIC)
    edges = torch.tensor([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0]])
    expected = torch.tensor([[-3.0, 0.5], [1.0, 0.75], [-1.0, 0.625]])
    torch.testing.assert_close(scale.to_env(edges), expected)
    torch.testing.assert_close(scale.to_canonical(expected), edges)
    squashed = SquashedGaussian(torch.zeros(1, 2), torch.zeros(2), scale)
    assert ASYMMETRIC.contains(squashed.env_action(torch.full((1, 2), 0.9))[0].numpy())


def test_dimensions_without_bounds_keep_their_units():
    space = Box(np.array([-np.inf, 0.0, -1.0], np.float32), np.array([np.inf, 10.0, np.inf], np.float32))
    scale = BoxScale(space)
    assert not scale.bounded
    assert scale.to_env(torch.tensor([[3.0, 0.0, 3.0]])).tolist() == [[3.0, 5.0, 3.0]]
    huge = np.finfo(np.float32).max
    assert not BoxScale(Box(-huge, huge, (2,), np.float32)).bounded


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_actions_have_the_shape_of_the_space(shape):
    space = Box(-2.0, 2.0, shape, np.float32)
    size = int(np.prod(shape))
    distribution = DiagonalGaussian(torch.zeros(5, size), torch.zeros(size), BoxScale(space))
    sample = distribution.sample(distribution.draw_noise((5, size), torch.Generator().manual_seed(0)))
    action = distribution.env_action(sample)
    assert action.shape == (5, *shape)
    torch.testing.assert_close(distribution.from_env_action(action), sample)
    assert distribution.log_prob(sample).shape == distribution.entropy().shape == (5,)


def test_a_clone_of_a_squashed_policy_recovers_its_parameters():
    """Cloning by negative log-likelihood in the distribution's own terms, not by regression on actions."""
    scale = BoxScale(ASYMMETRIC)
    expert = SquashedGaussian(torch.tensor([[0.9, -1.4]]), torch.tensor([-0.5, -1.0]), scale)
    noise = expert.draw_noise((4000, 2), torch.Generator().manual_seed(2))
    actions = expert.env_action(expert.sample(noise))
    mean, log_std = torch.zeros(1, 2, requires_grad=True), torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.Adam([mean, log_std], 0.05)
    for _ in range(300):
        clone = SquashedGaussian(mean, log_std, scale)
        loss = -clone.log_prob(clone.from_env_action(actions)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.testing.assert_close(mean.detach(), expert.mean, atol=0.03, rtol=0)
    torch.testing.assert_close(log_std.detach(), expert.log_std, atol=0.03, rtol=0)
