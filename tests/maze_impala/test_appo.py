"""What APPO learns from and by: target policy, anchor, loss; on the runner `dev`."""

import math

import numpy as np
import pytest
import torch
from maze_devkit.envs import SeededWalk
from maze_devkit.probes import Workshop
from maze_impala.appo import anchored

from maze_core.base.errors import ConfigError
from tests.maze_impala.conftest import SMALL


@pytest.fixture
def small(quick):
    """`small(env, overrides, **parts)`: a quick run of two actors with two environments each."""

    def build(*args, overrides=None, **parts):
        return quick(*args, algorithm="appo", overrides=SMALL | (overrides or {}), **parts)

    return build


@pytest.mark.parametrize("bound", [None, 1.0, 2.0])
def test_the_ratio_is_that_of_impact(bound):
    """min(acting / target, bound) * learning / acting, written with probabilities."""
    rng = np.random.default_rng(1)
    acting, target, learning = rng.uniform(0.01, 1, (3, 200))
    limit = math.inf if bound is None else bound
    expected = np.minimum(acting / target, limit) * learning / acting
    log = torch.from_numpy(np.log([acting, target, learning]))
    found = (log[2] - anchored(log[1], log[0], bound)).exp()
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def disturb(module, seed, size=0.2):
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += size * torch.randn(parameter.shape, generator=noise)


def written_loss(config, policies, batch, shape):
    """The loss one trajectory and step at a time: V-trace of the target policy, the surrogate around it."""
    learning, target = policies
    steps, count = shape
    data = {name: leaf.reshape(shape).double() for name, leaf in batch.extra.items()}
    with torch.no_grad():
        value = learning.value(batch.obs).double().reshape(shape)
        of_target = target.distribution(batch.obs).log_prob(batch.actions).double().reshape(shape)
    advantages, targets = torch.zeros(shape).double(), torch.zeros(shape).double()
    for i in range(count):
        correction, following = 0.0, None
        for t in reversed(range(steps)):
            followed = t < steps - 1 and data["continues"][t, i] == 1
            next_value = value[t + 1, i] if followed else data["bootstrap"][t, i]
            next_target = following if followed else data["bootstrap"][t, i]
            gamma, reward = data["discount"][t, i], data["reward"][t, i]
            rho = min(1.0, math.exp(of_target[t, i] - data["log_prob"][t, i]))
            delta = rho * (reward + gamma * next_value - value[t, i])
            correction = delta + (gamma * rho * correction if followed else 0.0)
            advantages[t, i] = rho * (reward + gamma * next_target - value[t, i])
            targets[t, i] = following = value[t, i] + correction
    if config.normalize_advantages:
        advantages = (advantages - advantages.mean()) / advantages.std(correction=0)
    distribution, value = learning(batch.obs)
    log_prob = distribution.log_prob(batch.actions).reshape(shape)
    between = torch.minimum((data["log_prob"] - of_target).exp(), torch.tensor(config.ratio_bound))
    ratio = between * (log_prob - data["log_prob"]).exp()
    low, high = 1 - config.clip_range, 1 + config.clip_range
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages).mean()
    error = (value.reshape(shape) - targets).square().mean()
    bonus = config.entropy_coef * distribution.entropy().mean()
    return -config.policy_loss_coef * surrogate + config.value_loss_coef * error - bonus


def gradients(policy, loss):
    return torch.autograd.grad(loss, list(policy.parameters()), allow_unused=True)


@pytest.mark.parametrize("normalise", [True, False])
def test_the_loss_and_its_gradient(small, normalise):
    """Three policies that differ; Dict observations and actions, masks, truncations and terminations inside."""
    overrides = {
        "algorithm.value_loss_coef": 0.7,
        "algorithm.n_rollout_steps": 30,
        "algorithm.normalize_advantages": normalise,
        "algorithm.ratio_bound": 1.1,
        "algorithm.target_update_interval": 3,
    }
    run = small(Workshop, overrides=overrides, model="template").run
    list(run.algorithm.batches())
    run.state.updates = 1  # no copy is due
    target = run.algorithm.modules()["target"]
    disturb(target, 1)
    disturb(run.policy, 2)
    batch = next(run.algorithm.batches())
    behaviour = {name: leaf.clone() for name, leaf in batch.extra.items()}
    expected = written_loss(run.algorithm.config, (run.policy, target), batch, (30, 4))
    loss = run.hooks.compute_loss(policy=run.policy, batch=batch)
    assert loss.metrics["clip_fraction"] > 0
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-4)
    for ours, theirs in zip(gradients(run.policy, loss.total), gradients(run.policy, expected.float()), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    assert all(torch.equal(batch.extra[name], leaf) for name, leaf in behaviour.items())


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_the_target_stays_until_its_update_is_due(small):
    run = small(SeededWalk, overrides={"algorithm.target_update_interval": 3}).run
    target, was_copied = run.algorithm.modules()["target"], []
    for _ in range(7):
        disturb(run.policy, run.updates)
        batches = run.algorithm.batches()
        next(batches)
        was_copied.append(same(run.policy, target))
        list(batches)
        run.count_update()
    assert was_copied == [True, False, False, True, False, False, True]


def test_a_fresh_policy_has_ratio_one_whoever_acted(small):
    """The anchor is the target, not the actor: what an old actor did is neither up nor down by itself."""
    run = small(SeededWalk, overrides={"algorithm.target_update_interval": 1, "algorithm.ratio_bound": None}).run
    batch = next(run.algorithm.batches())
    loss = run.hooks.compute_loss(policy=run.policy, batch=batch)
    assert loss.metrics["kl"].item() == pytest.approx(0, abs=1e-6)
    assert loss.metrics["clip_fraction"] == 0


def test_a_batch_is_learned_from_as_often_as_configured(small):
    run = small(SeededWalk, overrides={"algorithm.n_optimization_epochs": 3, "model.normalize_observations": True}).run
    batches = list(run.algorithm.batches())
    assert len(batches) == 3
    assert run.policy.normalizer.count == len(batches[0])  # its statistics count a row once
    assert run.env_steps == len(batches[0])


@pytest.mark.parametrize("updates", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_resumed_run_is_bit_by_bit_the_uninterrupted_one(small, whole_state, assert_same, updates):
    """Also between two updates of the target, in the middle of episodes."""
    overrides = {
        "algorithm.n_epochs": 3,
        "algorithm.epoch_length": updates,
        "algorithm.target_update_interval": 2,
        "model.normalize_observations": True,
    }
    parts = {"overrides": overrides, "model": "template"}
    stopped = small(Workshop, **parts)
    stopped.train(n_epochs=1)
    stopped.close()
    resumed = small(Workshop, **parts)
    resumed.resume(stopped.run_dir)
    whole = small(Workshop, **parts)
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))


@pytest.mark.parametrize("name", ["ratio_bound", "clip_range", "target_update_interval", "n_optimization_epochs"])
def test_wrong_settings_are_refused(small, name):
    with pytest.raises(ConfigError, match=f"algorithm.{name}"):
        small(SeededWalk, overrides={f"algorithm.{name}": 0}).train()
