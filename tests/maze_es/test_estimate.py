"""Sign, scale and direction of the estimate; the surrogate's gradient against the formula."""

import numpy as np
import pytest
import torch
from maze_devkit.envs import SeededWalk
from maze_es.es import ES
from maze_es.evaluator import PARAMETERS, noise_seed
from maze_es.noise import Noise
from maze_es.ranks import centred_ranks

from maze_core.data.batch import Batch


@pytest.fixture
def built(es):
    """`built(overrides)`: (run, algorithm) of an ES run that was built and not trained."""

    def build(overrides=None, env=SeededWalk, **parts):
        run = es(env, overrides, **parts).run
        return run, run.algorithm

    return build


def batch_of(ranks, first=0):
    return Batch({}, {}, {"index": torch.arange(first, first + len(ranks)), "rank": torch.from_numpy(ranks)})


def step(run, batch):
    """One optimizer step."""
    run.learner.step(run.hooks.compute_loss(run.policy, batch))


def flat_gradient(run, algorithm, batch):
    run.policy.zero_grad()
    run.hooks.compute_loss(policy=run.policy, batch=batch).total.backward()
    gradients = dict(run.policy.named_parameters())
    return np.concatenate([gradients[name].grad.numpy().reshape(-1) for name in algorithm.space.shapes])


def philox_normals(seed, index, size):
    key = np.array([seed, index], np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).standard_normal(size, np.float32).astype(np.float64)


def test_the_gradient_is_minus_the_estimate_and_the_penalty(built):
    """arXiv 1703.03864, algorithm 2 with ranks and antithetic pairs, written out with numpy."""
    run, algorithm = built({"algorithm.l2_penalty": 0.3})
    theta = algorithm.space.vector(run.policy).double().numpy()
    returns = np.random.default_rng(0).normal(size=(6, 2))
    ranks = centred_ranks(returns)
    estimate = np.zeros(theta.size)
    for i in range(6):
        direction = philox_normals(noise_seed(run.seed), 40 + i, theta.size)
        estimate += ranks[i, 0] * direction + ranks[i, 1] * -direction
    estimate /= 12
    gradient = flat_gradient(run, algorithm, batch_of(ranks, first=40))
    np.testing.assert_allclose(gradient, -estimate + 0.3 * theta, rtol=1e-4, atol=1e-6)
    loss = algorithm.compute_loss(run.policy, batch_of(ranks, first=40))
    assert loss.total.item() == pytest.approx(-theta @ estimate + 0.15 * theta @ theta, rel=1e-4)
    assert loss.metrics["estimate_norm"].item() == pytest.approx(np.linalg.norm(estimate), rel=1e-4)


def test_linear_fitness_gives_the_exact_direction_from_as_many_pairs_as_dimensions(built):
    """With F(theta) = a theta + b the pairs' differences are 2 sigma a eps: baseline and theta cancel exactly, so the
    estimate is the second moment of the directions times a, and solving for a gives it back."""
    run, algorithm = built({"algorithm.l2_penalty": 0.0})
    size, sigma = algorithm.space.size, 0.02
    rng = np.random.default_rng(1)
    slope, theta = rng.normal(size=size), algorithm.space.vector(run.policy).double().numpy()
    pairs = 3 * size
    directions = Noise(noise_seed(run.seed), size).rows(range(pairs)).astype(np.float64)
    fitness = np.stack([(theta + sign * sigma * directions) @ slope + 1000.0 for sign in (1, -1)], 1)
    gradient = flat_gradient(run, algorithm, batch_of(fitness.astype(np.float64) / sigma))
    second_moment = directions.T @ directions / pairs
    np.testing.assert_allclose(np.linalg.solve(second_moment, -gradient), slope, rtol=1e-3, atol=1e-3)


def test_ranks_of_linear_fitness_point_along_it(built):
    run, algorithm = built({"algorithm.l2_penalty": 0.0})
    size, pairs = algorithm.space.size, 4000
    slope = np.random.default_rng(2).normal(size=size)
    climbs = Noise(noise_seed(run.seed), size).rows(range(pairs)) @ slope
    gradient = flat_gradient(run, algorithm, batch_of(centred_ranks(np.stack([climbs, -climbs], 1))))
    cosine = -gradient @ slope / np.linalg.norm(gradient) / np.linalg.norm(slope)
    assert cosine > 0.99
    # Uniform ranks r of a normal climb z have E[r z] = 1 / (2 sqrt(pi)).
    assert -gradient @ slope / (slope @ slope) * np.linalg.norm(slope) == pytest.approx(0.5 / np.sqrt(np.pi), rel=0.05)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_steps_climb_a_hill_and_find_the_top(built, optimizer):
    """The learner and its optimizer on the estimate of -|theta - top|^2, no environment involved."""
    step_size = {"adam": 0.02, "sgd": 0.02}[optimizer]
    run, algorithm = built(
        {"algorithm.l2_penalty": 0.0, "algorithm.optimizer": optimizer, "algorithm.step_size": step_size}
    )
    size = algorithm.space.size
    top = np.random.default_rng(3).normal(size=size)
    noise, sigma, far = Noise(noise_seed(run.seed), size), 0.1, None
    for update in range(250):
        theta = algorithm.space.vector(run.policy).double().numpy()
        far = far or np.linalg.norm(theta - top)
        directions = noise.rows(range(update * 50, update * 50 + 50)).astype(np.float64)
        returns = [[-np.sum((theta + s * sigma * d - top) ** 2) for s in (1, -1)] for d in directions]
        step(run, batch_of(centred_ranks(np.array(returns)), first=update * 50))
    assert np.linalg.norm(algorithm.space.vector(run.policy).double().numpy() - top) < 0.35 * far


def test_momentum_and_step_size_reach_the_optimizer(built):
    run, _ = built({"algorithm.optimizer": "sgd", "algorithm.momentum": 0.7, "algorithm.step_size": 0.4})
    group = run.learner.optimizer.param_groups[0]
    assert isinstance(run.learner.optimizer, torch.optim.SGD)
    assert (group["lr"], group["momentum"]) == (0.4, 0.7)


def test_only_what_actions_depend_on_is_searched(built):
    assert not built()[0].policy.has_critic  # nobody needs one
    run, algorithm = built({"model.critic": "separate"})
    assert run.policy.has_critic
    searched = set(algorithm.space.shapes)
    assert searched == {name for name, _ in run.policy.named_parameters() if name.startswith(("encoder", "heads"))}
    before = {name: value.clone() for name, value in run.policy.state_dict().items()}
    step(run, next(algorithm.batches()))
    for name, value in run.policy.state_dict().items():
        assert value.equal(before[name]) == (name not in searched), name


def test_a_standard_deviation_is_searched_only_where_it_is_used(built):
    def searched(**overrides):
        env = {"env": "Pendulum-v1"}
        _, algorithm = built({f"algorithm.{name}": value for name, value in overrides.items()}, **env)
        return {name.rpartition(".")[2] for name in algorithm.space.shapes}

    assert "log_std" not in searched()
    assert "log_std" in searched(deterministic=False)


def test_a_vector_is_cut_where_it_was_joined(built):
    run, algorithm = built()
    parameters = dict(run.policy.named_parameters())
    parts = algorithm.space.split(algorithm.space.vector(run.policy))
    assert all(parts[name].equal(parameters[name].detach()) for name in parts)
    assert sum(part.numel() for part in parts.values()) == algorithm.space.size
    stacked = algorithm.space.split(torch.zeros(5, algorithm.space.size))
    assert all(stacked[name].shape == (5, *parameters[name].shape) for name in parts)


def test_the_workers_are_sent_the_vector_and_the_buffers(built, monkeypatch):
    run, algorithm = built({"model.normalize_observations": True})
    (pool,), sent = run.environments.pools, []
    share = pool.share
    monkeypatch.setattr(pool, "share", lambda arrays: sent.append(arrays) or share(arrays))
    algorithm.evaluate_population()
    (arrays,) = sent
    np.testing.assert_array_equal(arrays[PARAMETERS], algorithm.space.vector(run.policy).numpy())
    assert {name for name in arrays if name != PARAMETERS} == {n for n in run.policy.state_dict() if "normalizer" in n}


def test_a_model_without_anything_to_search_is_refused(es):
    from maze_core.base.errors import ConfigError

    class Frozen(torch.nn.Module):
        def __init__(self, space):
            super().__init__()
            self.out_features = 2
            self.linear = torch.nn.Linear(2, 2).requires_grad_(False)

        def forward(self, obs):
            return self.linear(obs["observation"].float())

    run = es(SeededWalk, model=Frozen).run  # its head is searched
    assert all(name.startswith("heads") for name in run.algorithm.space.shapes)
    run.policy.requires_grad_(False)
    with pytest.raises(ConfigError, match="no trainable parameter"):
        ES(run.config.algorithm).setup(run)
