"""FastTD3: its losses against numpy, its noise, who follows whom, and that runs repeat themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv
from maze_offpolicy import White
from maze_td3.mixed_noise import MixedNoise

from maze_core.base.errors import ConfigError
from maze_core.collect.agents.agent import Choice
from maze_core.envs.vector import StepResult
from tests.bomb import bomb
from tests.interrupted import interrupted
from tests.maze_td3.drift import Drift
from tests.maze_td3.test_loss import act, seen

OBSERVATION = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))
FAST = {
    "algorithm.num_envs": 3,
    "algorithm.utd": 0.5,
    "algorithm.atoms": 7,
    "algorithm.v_min": -4,
    "algorithm.v_max": 2,
}


@pytest.fixture
def fast(td3):
    """`fast(env, overrides)`: a RunContext of FastTD3."""
    return lambda env, overrides=None, **parts: td3(env, FAST | (overrides or {}), algorithm="fast_td3", **parts)


@pytest.fixture
def started(fast):
    """A run that has learnt a little, with a target moved away from what it follows, and a batch."""
    context = fast(lambda: SpacesEnv(OBSERVATION, BOX), {"algorithm.gamma": 0.9, "algorithm.target_noise": 0.3})
    context.train()
    algorithm = context.run.algorithm
    chance = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in algorithm.targets.critics.module.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=chance)
    batch = algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 32, 0.9)
    batch.extra["discount"][:5] = 0.0
    return context.run, algorithm, batch


def probabilities(critics, obs, actions):
    """Of each critic and row, [K, B, M], in numpy."""
    found = []
    for number in range(2):
        hidden = np.concatenate([obs, actions], -1)
        for layer in range(3):
            weight, bias = (getattr(critics, f"{name}_{layer}")[number].detach().numpy() for name in ("weight", "bias"))
            hidden = hidden @ weight + bias
            hidden = np.maximum(hidden, 0) if layer < 2 else hidden
        weights = np.exp(hidden - hidden.max(-1, keepdims=True))
        found.append(weights / weights.sum(-1, keepdims=True))
    return np.array(found)


def test_the_critics_loss_is_that_of_the_papers(started):
    """Cross-entropy to the projected distribution of the target critic that expects least."""
    run, algorithm, batch = started
    batch.objective, policy, atoms = "critic", run.policy, np.linspace(-4, 2, 7)
    state = algorithm.noise.get_state()
    loss = algorithm.compute_loss(policy, batch)
    algorithm.noise.set_state(state)
    with torch.no_grad():
        ahead = seen(policy, batch.next_obs)
        following = act(policy, ahead)
        noise = torch.randn(following.shape, generator=algorithm.noise)
        following = (following + (0.3 * noise).clamp(-0.5, 0.5)).clamp(-1, 1).numpy()
    targets = probabilities(algorithm.targets.critics.module, ahead.numpy(), following)
    taken = (batch.actions["action"].numpy() - [0, 5]) / [2, 5]
    given = probabilities(algorithm.critics, seen(policy, batch.obs).numpy(), taken)
    total, chosen = 0.0, set()
    for row, (reward, discount) in enumerate(zip(batch.extra["reward"], batch.extra["discount"], strict=True)):
        least = int(np.argmin([p @ atoms for p in targets[:, row]]))
        chosen.add(least)
        wanted = np.zeros(7)
        for j in range(7):
            moved = np.clip(float(reward) + float(discount) * atoms[j], -4, 2)
            wanted += np.clip(1 - np.abs(moved - atoms), 0, 1) * targets[least, row, j]  # they are 1 apart
        total -= sum(wanted @ np.log(given[k, row]) for k in range(2)) / len(batch)
    assert chosen == {0, 1}
    assert loss.total.item() == pytest.approx(total, rel=1e-4)
    assert loss.metrics["q"].item() == pytest.approx((given @ atoms).mean(), rel=1e-4, abs=1e-5)


def test_the_policy_climbs_the_least_expectation(started):
    run, algorithm, batch = started
    batch.objective, policy = "policy", run.policy
    algorithm.critics.zero_grad()
    loss = algorithm.compute_loss(policy, batch)
    loss.total.backward()
    assert all(parameter.grad is None for parameter in algorithm.critics.parameters())
    assert all(p.grad is not None for p in policy.parameters() if p.requires_grad)
    looked = seen(policy, batch.obs)
    found = probabilities(algorithm.critics, looked.numpy(), act(policy, looked).detach().numpy())
    assert loss.total.item() == pytest.approx(-(found @ np.linspace(-4, 2, 7)).min(0).mean(), rel=1e-4)


def test_targets_of_the_critics_follow_each_update_and_weights_decay(fast):
    context = fast(lambda: SpacesEnv(OBSERVATION, BOX), {"algorithm.tau": 1.0, "algorithm.policy_delay": 3})
    context.train()
    algorithm = context.run.algorithm
    assert set(algorithm.modules()) == {"critics", "critic_target"}
    assert algorithm.targets.policy.module is context.run.policy
    for ours, theirs in zip(algorithm.critics.parameters(), algorithm.targets.critics.module.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    groups = context.run.learner.optimizer.param_groups
    assert [(g["name"], g["weight_decay"], g["decoupled_weight_decay"]) for g in groups] == [
        ("critic", 0.1, True),
        ("policy", 0.1, True),
    ]


def ended(rows, *indices):
    """A step of so many environments, in which the episodes of some end."""
    zeros, found = np.zeros(rows, np.float32), np.array(indices, np.int64)
    return StepResult(zeros, zeros > 0, zeros > 0, zeros == 0, found)


def test_each_environment_has_its_own_noise_until_its_episode_ends():
    space, rows = spaces.Box(-50, 50, (200,), np.float32), 5
    noise = MixedNoise(space, White(np.random.default_rng(0)), rows, np.random.default_rng(1), lambda: (0.01, 0.2))
    zeros = np.zeros((rows, 200), np.float32)

    def spread():
        return noise.explore({}, Choice({"action": zeros}, {"action": zeros})).actions["action"].std(-1) / 50

    before = np.mean([spread() for _ in range(20)], 0)
    assert 0.01 <= before.min() < before.max() - 0.02 < 0.2
    noise.seen(ended(rows))
    np.testing.assert_allclose(np.mean([spread() for _ in range(20)], 0), before, rtol=0.1)
    noise.seen(ended(rows, 1, 3))
    after = np.mean([spread() for _ in range(20)], 0)
    np.testing.assert_allclose(after[[0, 2, 4]], before[[0, 2, 4]], rtol=0.1)
    assert (np.abs(after / before - 1)[[1, 3]] > 0.1).all()
    other = MixedNoise(space, White(np.random.default_rng(2)), rows, np.random.default_rng(3), lambda: (0.01, 0.2))
    other.load_state(noise.state())
    for each in (noise, other):
        each.seen(ended(rows, 0))
    np.testing.assert_array_equal(other._draw(rows)["action"], noise._draw(rows)["action"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"algorithm.v_min": 3}, "v_min must be less than v_max"),
        ({"algorithm.exploration_noise_min": 0.5}, "exploration_noise_min is 0.5, above exploration_noise"),
        ({"algorithm.atoms": 1}, "algorithm.atoms"),
        ({"algorithm.exploration": "mine:Push"}, "algorithm.exploration"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(fast, values, words):
    with pytest.raises(ConfigError, match=words):
        fast(lambda: SpacesEnv(OBSERVATION, BOX), values).train()


LONG = FAST | {
    "algorithm.n_epochs": 3,
    "algorithm.num_envs": 2,
    "algorithm.exploration": "repeated",
    "algorithm.replay_buffer_size": 60,
    "algorithm.initial_buffer_size": 30,
}


def test_a_run_that_was_stopped_in_an_epoch_ends_like_an_undisturbed_one(fast, whole_state, assert_same):
    stopped = fast(Drift, LONG, callbacks={"bomb": bomb(7)})
    assert interrupted(stopped.train).outcome == "interrupted"
    assert stopped.resume(stopped.run_dir).outcome == "finished"
    whole = fast(Drift, LONG, callbacks={"bomb": bomb(0)})
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))
