"""The losses of TD3 and DDPG against the equations of their papers, written out with ordinary layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv

BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))
OBSERVATION = spaces.Box(-1, 1, (3,), np.float32)
ACTIONS = {"box": BOX, "dict": spaces.Dict({"a": spaces.Box(-5, 5, (1,), np.float32), "b": BOX})}
NORMALIZED = {"model.normalize_observations": True}


@pytest.fixture(params=[("td3", "box", {}), ("td3", "dict", NORMALIZED), ("ddpg", "box", NORMALIZED)])
def started(request, td3):
    """A run that has learnt a little, with targets moved away from what they follow."""
    algorithm, actions, values = request.param
    context = td3(
        lambda: SpacesEnv(OBSERVATION, ACTIONS[actions]), {"algorithm.gamma": 0.9, **values}, algorithm=algorithm
    )
    context.train()
    algorithm = context.run.algorithm
    with torch.no_grad():
        for target in (algorithm.targets.critics, algorithm.targets.policy):
            for parameter in target.module.parameters():
                parameter += 0.2 * torch.randn_like(parameter)
    batch = algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 32, 0.9)
    batch.extra["discount"][:5] = 0.0
    return context.run, algorithm, batch


def value(critics, number, obs, actions):
    """One critic by ordinary layers, [B]."""
    hidden = torch.cat([obs, actions], -1)
    for layer in range(3):
        hidden = hidden @ getattr(critics, f"weight_{layer}")[number] + getattr(critics, f"bias_{layer}")[number]
        hidden = torch.relu(hidden) if layer < 2 else hidden
    return hidden.squeeze(-1)


def act(policy, seen):
    """tanh of the mean of every leaf, [B, d]; by ordinary layers."""
    hidden = seen
    for layer in policy.encoder.trunk.layers:
        hidden = torch.relu(torch.nn.functional.linear(hidden, layer.weight, layer.bias))
    return torch.cat([torch.tanh(head.linear(hidden)) for _, _, head in policy.action_heads], -1)


def units(actions):
    """Actions of the environment in [-1, 1], from the bounds above."""
    columns = [actions[key] for key in sorted(actions)]
    scaled = [c / 5 if c.shape[-1] == 1 else (c - torch.tensor([0.0, 5.0])) / torch.tensor([2.0, 5.0]) for c in columns]
    return torch.cat(scaled, -1)


def seen(policy, obs):
    return obs["observation"] if policy.normalizer is None else policy.normalizer(obs)["observation"]


def test_the_critics_loss_is_that_of_the_paper(started):
    run, algorithm, batch = started
    batch.objective, policy, critics = "critic", run.policy, algorithm.critics
    state = algorithm.noise.get_state()
    loss = algorithm.compute_loss(policy, batch)
    algorithm.noise.set_state(state)
    count = critics.count
    assert count == (2 if algorithm.config.name == "td3" else 1)
    with torch.no_grad():
        following = act(algorithm.targets.policy.module, seen(policy, batch.next_obs))
        if count == 2:
            noise = torch.randn(following.shape, generator=algorithm.noise)
            following = (following + (0.2 * noise).clamp(-0.5, 0.5)).clamp(-1, 1)
        targets = [
            value(algorithm.targets.critics.module, n, seen(policy, batch.next_obs), following) for n in range(count)
        ]
        y = batch.extra["reward"] + batch.extra["discount"] * torch.stack(targets).min(0).values
    errors = [
        (value(critics, n, seen(policy, batch.obs), units(batch.actions)) - y).square().mean() for n in range(count)
    ]
    torch.testing.assert_close(loss.total, sum(errors), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(loss.metrics["critic"], sum(errors).detach(), rtol=1e-4, atol=1e-5)


def test_the_policy_climbs_the_first_critic(started):
    run, algorithm, batch = started
    batch.objective, policy, critics = "policy", run.policy, algorithm.critics
    policy.zero_grad()
    critics.zero_grad()
    loss = algorithm.compute_loss(policy, batch)
    loss.total.backward()
    assert all(parameter.grad is None for parameter in critics.parameters())
    found = {name: p.grad.clone() for name, p in policy.named_parameters() if p.requires_grad}
    policy.zero_grad()
    looked = seen(policy, batch.obs)
    expected = -value(critics, 0, looked, act(policy, looked)).mean()
    expected.backward()
    torch.testing.assert_close(loss.total, expected)
    assert found
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, policy.get_parameter(name).grad, rtol=1e-4, atol=1e-6, msg=name)
    unused = [name for name, p in policy.named_parameters() if not p.requires_grad]
    assert all(name.endswith("log_std") for name in unused)


def test_smoothing_noise_is_clipped_and_stays_in_the_bounds(td3):
    """Noise of a hundred half-ranges becomes one of exactly the clip, or ends at a bound."""
    context = td3(lambda: SpacesEnv(OBSERVATION, BOX), {"algorithm.target_noise": 100.0})
    context.train()
    run, algorithm = context.run, context.run.algorithm
    batch = algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 64, 0.9)
    asked = []
    module = algorithm.targets.critics.module
    values = module.values
    module.values = lambda features, box: (asked.append(box), values(features, box))[1]
    algorithm.targets.values(run.policy, batch, algorithm.config.target_noise, algorithm.config.target_noise_clip)
    calm = act(algorithm.targets.policy.module, batch.next_obs["observation"])
    moved = (asked[0] - calm).abs()
    assert ((moved - 0.5).abs() < 0.01).float().mean() > 0.9
    assert asked[0].abs().max() <= 1
