"""FlashSAC: its losses against a computation with ordinary operations, its norms, and that runs repeat themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv
from torch.distributions import Normal
from torch.nn import functional as F

from maze_core.base.errors import ConfigError
from maze_core.run.context import RunContext
from tests.bomb import bomb
from tests.interrupted import interrupted
from tests.maze_td3.drift import Drift

OBSERVATION = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))
SMALL = {
    "algorithm.initial_buffer_size": 20,
    "algorithm.replay_buffer_size": 500,
    "algorithm.epoch_length": 5,
    "algorithm.n_epochs": 2,
    "algorithm.batch_size": 16,
    "algorithm.num_envs": 2,
    "algorithm.utd": 0.5,
    "algorithm.atoms": 7,
    "algorithm.policy_width": 8,
    "algorithm.policy_blocks": 1,
    "algorithm.critic_width": 8,
    "algorithm.critic_blocks": 1,
    "evaluation.n_episodes": 2,
    "callbacks.tensorboard": None,
}


@pytest.fixture
def flash(tmp_path, known_plugins):
    """`flash(env, overrides, **parts)`: a silent RunContext of two epochs of five updates, seed 1."""
    open_ones = []

    def build(env, overrides=None, **parts):
        parts = {"run_dir": tmp_path / f"run{len(open_ones)}", "seed": 1, "silent": True, "preset": "none", **parts}
        open_ones.append(RunContext(env, "flash_sac", overrides=SMALL | (overrides or {}), **parts))
        return open_ones[-1]

    yield build
    for context in open_ones:
        context.close()


@pytest.fixture
def started(flash):
    """A run that has learnt a little, with a target moved away from what it follows, and a batch."""
    context = flash(lambda: SpacesEnv(OBSERVATION, BOX))
    context.train()
    algorithm = context.run.algorithm
    chance = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in algorithm.target.module.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=chance)
    batch = algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 32, 0.9)
    batch.extra["discount"][:5] = 0.0
    return context.run, algorithm, batch


def normed(values, norm, k, batch):
    """Batch normalisation [B, F] by its definition."""
    mean, variance = (values.mean(0), values.var(0, correction=0)) if batch else (norm.mean[k, 0], norm.variance[k, 0])
    return (values - mean) / (variance + 1e-5).sqrt() * norm.scale[k, 0] + norm.shift[k, 0]


def features(trunk, k, values, batch):
    """One network of a trunk with one block."""
    hidden = normed(values, trunk.norms[0], k, batch) @ trunk.layers[0].weight[k]
    inside = torch.relu(normed(hidden @ trunk.layers[1].weight[k], trunk.norms[1], k, batch))
    hidden = hidden + torch.relu(normed(inside @ trunk.layers[2].weight[k], trunk.norms[2], k, batch))
    return hidden / (hidden.square().mean(-1, keepdim=True) + 1e-6).sqrt() * trunk.last.scale[k, 0]


def distributions(critics, values, batch):
    """The probabilities of the atoms, [2, B, M]."""
    each = [features(critics.trunk, k, values, batch) @ critics.head.weight[k] + critics.bias[k] for k in range(2)]
    return torch.stack(each).softmax(-1)


def decided(policy, hidden, noise):
    """Actions in [-1, 1] and their log-densities."""
    head = policy.heads["action_head"].linear
    mean, log_std = F.linear(hidden, head.weight, head.bias).chunk(2, -1)
    normal = Normal(mean.double(), log_std.clamp(-20, 2).exp().double())
    value = normal.mean + normal.stddev * noise
    slope = 4 / (value.exp() + (-value).exp()).square()
    return value.tanh().float(), (normal.log_prob(value) - slope.log()).sum(-1).float()


def test_the_loss_is_that_of_the_paper(started):
    run, algorithm, batch = started
    policy, critics, rows = run.policy, algorithm.critics, len(batch)
    obs = batch.obs["observation"]
    ahead = torch.cat((obs[:5], batch.next_obs["observation"][5:]))  # nothing follows the first five
    noises, state = [], algorithm.noise.get_state()
    for _ in range(2):
        noises.append(policy.draw_noise((rows,), algorithm.noise)["action"])
    algorithm.noise.set_state(state)
    alpha, atoms, trunk = algorithm.temperature.log_coef.exp().item(), torch.linspace(-5, 5, 7), policy.encoder.trunk
    both = torch.cat((obs, ahead))
    with torch.no_grad():
        following, log_density = decided(policy, features(trunk, 0, ahead, batch=False), noises[0])
        taken = (batch.actions["action"] - torch.tensor([0.0, 5.0])) / torch.tensor([2.0, 5.0])
        joined = torch.cat((both, torch.cat((taken, following))), -1)
        next_ones = distributions(algorithm.target.module, joined, batch=True)[:, rows:]
        given = distributions(critics, joined, batch=True)[:, :rows].log()
        critic = 0.0
        for row in range(rows):
            least = (next_ones[:, row] @ atoms).argmin()
            wanted = torch.zeros(7)
            for j in range(7):
                bonus = -alpha * log_density[row]
                moved = batch.extra["reward"][row] + batch.extra["discount"][row] * (atoms[j] + bonus)
                distance = (moved.clamp(-5, 5) - atoms).abs() / (10 / 6)
                wanted += (1 - distance).clamp(min=0) * next_ones[least, row, j]
            critic -= (given[:, row] @ wanted).sum() / rows
        acted, density = decided(policy, features(trunk, 0, both, batch=True)[:rows], noises[1])
    loss = algorithm.compute_loss(policy, batch)
    # The policy's values come from running statistics, into which the batch has been taken.
    with torch.no_grad():
        value = (distributions(critics, torch.cat((obs, acted), -1), batch=False) @ atoms).min(0).values
        actor = (alpha * density - value).mean()
        goal = 2 * (0.5 * np.log(2 * np.pi * np.e) + np.log(0.15))
        temperature = algorithm.temperature.log_coef * (-density.mean() - goal)
    assert loss.metrics["critic"].item() == pytest.approx(critic.item(), rel=1e-3)
    assert loss.metrics["policy"].item() == pytest.approx(actor.item(), rel=1e-3, abs=1e-4)
    assert loss.metrics["entropy"].item() == pytest.approx(-density.mean().item(), rel=1e-3, abs=1e-4)
    assert loss.total.item() == pytest.approx((critic + actor + temperature).item(), rel=1e-3)


def test_each_part_has_gradients_for_its_own_parameters_only(started):
    run, algorithm, batch = started
    batch.objective = "critic"
    run.policy.zero_grad()
    algorithm.critics.zero_grad()
    algorithm.compute_loss(run.policy, batch).total.backward()
    assert all(parameter.grad is None for parameter in run.policy.parameters())
    before = [parameter.grad.clone() for parameter in algorithm.critics.parameters()]
    assert all(gradient.abs().sum() > 0 for gradient in before)


def test_norms_hold_after_training_for_policy_and_critics(flash):
    context = flash(lambda: SpacesEnv(OBSERVATION, BOX), {"algorithm.lr": 0.05})
    context.train()
    run = context.run
    assert any(run.algorithm.critics.trunk.norms[1].shift.flatten() != 0)
    for network in (run.policy.encoder.trunk, run.algorithm.critics.trunk):
        for layer in network.layers:
            torch.testing.assert_close(layer.weight.norm(dim=1), torch.ones_like(layer.weight[:, 0]))
        for norm in network.norms:
            squares = (norm.scale.square() + norm.shift.square()).sum(-1)
            torch.testing.assert_close(squares, torch.full_like(squares, norm.scale.shape[-1]))
    heads = [run.policy.heads["action_head"].linear.weight.norm(dim=1), run.algorithm.critics.head.weight.norm(dim=1)]
    for norms in heads:
        torch.testing.assert_close(norms, torch.ones_like(norms))


@pytest.mark.parametrize(
    ("space", "values", "words"),
    [
        (spaces.Discrete(3), {}, "flash_sac supports actions of Box"),
        (spaces.Box(-np.inf, np.inf, (1,), np.float32), {}, "model.distribution"),
        (BOX, {"model.memory": "gru"}, "model.memory"),
        (BOX, {"algorithm.return_bound": 0}, "algorithm.return_bound"),
        (BOX, {"learners": 2}, "learners"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(flash, space, values, words):
    with pytest.raises(ConfigError, match=words):
        flash(lambda: SpacesEnv(OBSERVATION, space), values).train()


LONG = {"algorithm.n_epochs": 3, "algorithm.replay_buffer_size": 60, "algorithm.initial_buffer_size": 30}


def test_a_run_that_was_stopped_in_an_epoch_ends_like_an_undisturbed_one(flash, whole_state, assert_same):
    stopped = flash(Drift, LONG, callbacks={"bomb": bomb(7)})
    assert interrupted(stopped.train).outcome == "interrupted"
    assert stopped.resume(stopped.run_dir).outcome == "finished"
    whole = flash(Drift, LONG, callbacks={"bomb": bomb(0)})
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))
