"""SAC's one loss against three losses with three backward passes, written out for one batch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv

from maze_core.envs.spaces import flatten_space
from tests.maze_sac.enumeration import choices_of, expectation, summed

BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))
OBSERVATION = spaces.Box(-1, 1, (3,), np.float32)
SPACES = {
    "box": BOX,
    "discrete": spaces.Discrete(4, start=3),
    "multi": spaces.MultiDiscrete([2, 3], start=[1, -1]),
    "dict": spaces.Dict({"a": spaces.Discrete(3), "b": spaces.MultiBinary(2)}),
    "mixed": spaces.Dict({"a": spaces.Discrete(3), "b": BOX}),
    "mixed more": spaces.Dict({"a": spaces.Discrete(3), "b": BOX, "c": spaces.MultiBinary(2)}),
}


@pytest.fixture(params=SPACES)
def started(request, sac):
    """A run that has filled its buffer, with the critics' targets moved away from the critics."""
    context = sac(
        lambda: SpacesEnv(OBSERVATION, SPACES[request.param]), {"algorithm.n_epochs": 1, "algorithm.gamma": 0.9}
    )
    context.train()
    algorithm = context.run.algorithm
    with torch.no_grad():
        for parameter in algorithm.targets.module.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return context.run, algorithm


def values_of(critics, number, obs, box):
    """One critic by ordinary layers, [B, outputs]."""
    hidden = obs if box is None else torch.cat([obs, box], -1)
    for layer in range(3):
        hidden = hidden @ getattr(critics, f"weight_{layer}")[number] + getattr(critics, f"bias_{layer}")[number]
        hidden = torch.relu(hidden) if layer < 2 else hidden
    return hidden


def twins(critics, obs, box):
    return torch.stack([values_of(critics, number, obs, box) for number in (0, 1)])


def soft_value(policy, critics, obs, noise):
    """The lesser of the twins' expectations over joint choices, for one sample of the Box leaves; and log pi."""
    distribution = policy.distribution({"observation": obs})
    box, log_pi = None, torch.zeros(len(obs))
    for key, part in distribution.parts.items():
        if key not in noise:
            log_pi = log_pi - part.entropy()
            continue
        u = part.mean + part.log_std.exp() * noise[key]
        box = torch.tanh(u)
        normal = torch.distributions.Normal(part.mean, part.log_std.exp()).log_prob(u)
        log_pi = log_pi + (normal - torch.log(1 - box**2 + 1e-12)).sum(-1)
    q = twins(critics, obs, box)
    expected = expectation(distribution, policy.action_space, q) if choices_of(policy.action_space) else q.squeeze(-1)
    return torch.minimum(*expected), log_pi


def test_loss_and_gradients_are_those_of_three_separate_losses(started):
    run, algorithm = started
    policy, critics, targets = run.policy, algorithm.critics, algorithm.targets.module
    batch = algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 32, 0.9)
    batch.extra["discount"][:5] = 0.0
    state = algorithm.noise.get_state()
    loss = algorithm.compute_loss(policy, batch)
    modules = (policy, critics, targets, algorithm.temperature)
    for module in modules:
        module.zero_grad()
    loss.total.backward()
    assert loss.total.shape == ()

    algorithm.noise.set_state(state)
    space = run.action_space
    (box_key,) = [k for k, leaf in flatten_space(space, "action").items() if isinstance(leaf, spaces.Box)] or [None]
    noises = [{}, {}]
    if box_key:
        noises = [{box_key: policy.draw_noise((32,), algorithm.noise)[box_key]} for _ in range(2)]
    again = [copy.deepcopy(module) for module in modules]
    for module in again:
        module.zero_grad()
    policy2, critics2, targets2, temperature2 = again
    alpha = temperature2.log_coef.exp().item()
    obs, following = batch.obs["observation"], batch.next_obs["observation"]

    with torch.no_grad():
        value, log_pi = soft_value(policy2, targets2, following, noises[0])
        y = batch.extra["reward"] + batch.extra["discount"] * (value - alpha * log_pi)
    box = None
    if box_key:
        box = (batch.actions[box_key] - torch.tensor([0.0, 5.0])) / torch.tensor([2.0, 5.0])
    q = twins(critics2, obs, box)
    q = summed(q, space, batch.actions) if choices_of(space) else q.squeeze(-1)
    critic_loss = 0.5 * ((q - y) ** 2).mean(-1).sum()
    critic_loss.backward()
    expected_critics = {name: p.grad.clone() for name, p in critics2.named_parameters()}

    value, log_pi = soft_value(policy2, critics2, obs, noises[1])
    policy_loss = (alpha * log_pi - value).mean()
    policy_loss.backward()
    sizes = [size for members in choices_of(space).values() for size in members]
    target_entropy = (-2.0 if box_key else 0.0) + 0.98 * sum(map(np.log, sizes))
    temperature_loss = -(temperature2.log_coef * (log_pi.detach() + target_entropy)).mean()
    temperature_loss.backward()

    close = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(loss.total, critic_loss + policy_loss + temperature_loss, **close)
    torch.testing.assert_close(loss.metrics["critic"], critic_loss, **close, check_device=False)
    torch.testing.assert_close(loss.metrics["entropy"], -log_pi.mean(), **close)
    for name, parameter in critics.named_parameters():
        torch.testing.assert_close(parameter.grad, expected_critics[name], **close)
    for (name, parameter), other in zip(policy.named_parameters(), policy2.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, other.grad, **close, msg=name)
    torch.testing.assert_close(algorithm.temperature.log_coef.grad, temperature2.log_coef.grad, **close)
    assert all(parameter.grad is None for parameter in targets.parameters())


def test_every_parameter_learns_and_targets_do_not(started):
    run, algorithm = started
    learning = {id(p) for group in run.learner.optimizer.param_groups for p in group["params"]}
    everything = {id(p) for m in (run.policy, algorithm.critics, algorithm.temperature) for p in m.parameters()}
    assert learning == everything
    rates = [group["lr"] for group in run.learner.optimizer.param_groups]
    assert rates == [1e-3, 7e-4]


def test_the_size_of_the_units_changes_nothing(sac):
    """Two environments that differ in the units of their actions train alike."""

    def env(scale):
        return lambda: Pull(scale)

    results = []
    for scale in (1.0, 1000.0):
        context = sac(env(scale), {"algorithm.n_epochs": 2})
        context.train()
        results.append((context.policy.state_dict(), context.run.algorithm.temperature.log_coef.item()))
    for name, value in results[0][0].items():
        torch.testing.assert_close(value, results[1][0][name], rtol=1e-3, atol=1e-4, msg=name)
    assert results[0][1] == pytest.approx(results[1][1], rel=1e-4)


class Pull(SpacesEnv):
    """Rewards the action, whatever its units."""

    def __init__(self, scale):
        super().__init__(OBSERVATION, spaces.Box(-scale, scale, (1,), np.float32))
        self._scale = scale

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(action[0]) / self._scale, terminated, truncated, info
