"""What IQL, TD3+BC and CQL minimise, against the equations of their papers, written out with ordinary layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv
from torch.nn import functional as F

from tests.recorded import BOX, OBSERVATION


def value(critics, number, inputs):
    """One critic by ordinary layers, [B, outputs]."""
    hidden = inputs
    for layer in range(3):
        hidden = hidden @ getattr(critics, f"weight_{layer}")[number] + getattr(critics, f"bias_{layer}")[number]
        hidden = torch.relu(hidden) if layer < 2 else hidden
    return hidden


def means(policy, seen):
    """The network's outputs for the action; by ordinary layers."""
    hidden = seen
    for layer in policy.encoder.trunk.layers:
        hidden = torch.relu(F.linear(hidden, layer.weight, layer.bias))
    return policy.heads["action_head"].linear(hidden)


def units(actions):
    """Actions of BOX in [-1, 1]."""
    return (actions - torch.tensor([0.0, 5.0])) / torch.tensor([2.0, 5.0])


def started(offline, record, algorithm, action_space, values=None):
    """A run that has learnt a little, with targets moved away from what they follow, and a batch."""
    folder = record(OBSERVATION, action_space)
    context = offline(algorithm, lambda: SpacesEnv(OBSERVATION, action_space), folder, values)
    context.train()
    run, plugin = context.run, context.run.algorithm
    with torch.no_grad():
        for name, module in plugin.modules().items():
            for parameter in module.parameters() if "target" in name else ():
                parameter += 0.2 * torch.randn_like(parameter)
    batch = plugin._steps.sample(64, 0.9)
    assert {0.0, 0.9} == {round(each, 3) for each in batch.extra["discount"].tolist()}
    return run, plugin, batch


@pytest.mark.parametrize("space", [BOX, spaces.Discrete(3)])
def test_iql(offline, record, space):
    run, plugin, batch = started(offline, record, "iql", space)
    policy, seen = run.policy, batch.obs["observation"]
    loss = plugin.compute_loss(policy, batch)
    taken = batch.actions["action"]

    def q(critics, number):
        if isinstance(space, spaces.Box):
            return value(critics, number, torch.cat([seen, units(taken)], -1)).squeeze(-1)
        return value(critics, number, seen)[torch.arange(64), taken]

    with torch.no_grad():
        least = torch.minimum(q(plugin.target.module, 0), q(plugin.target.module, 1))
        state, following = (value(plugin.value, 0, o["observation"]).squeeze(-1) for o in (batch.obs, batch.next_obs))
        u = least - state
        value_loss = torch.where(u > 0, 0.7 * u**2, 0.3 * u**2).mean()
        y = batch.extra["reward"] + batch.extra["discount"] * following
        critic_loss = sum(F.mse_loss(q(plugin.critics, number), y) for number in range(2))
        weights = torch.exp(3 * u).clamp(max=100)
        if isinstance(space, spaces.Box):
            std = policy.heads["action_head"].log_std.exp()
            radius = torch.tensor([2.0, 5.0])
            centre = torch.tensor([0.0, 5.0])
            normal = torch.distributions.Normal(centre + radius * means(policy, seen), radius * std)
            nll = -normal.log_prob(taken).sum(-1)
        else:
            nll = F.cross_entropy(means(policy, seen), taken, reduction="none")
        policy_loss = (weights * nll).mean()
    expected = {"value": value_loss, "critic": critic_loss, "policy": policy_loss, "nll": nll.mean()}
    for name, wanted in expected.items():
        torch.testing.assert_close(loss.metrics[name], wanted, rtol=1e-4, atol=1e-5, msg=name)
    torch.testing.assert_close(loss.total.detach(), value_loss + critic_loss + policy_loss, rtol=1e-4, atol=1e-5)


def test_each_network_of_iql_learns_from_its_own_loss(offline, record):
    """With weights of 1 the policy's gradient is that of cloning, and the others' do not reach it."""
    run, plugin, batch = started(offline, record, "iql", BOX, {"algorithm.beta": 0.0})
    policy = run.policy
    for network in (policy, *plugin.modules().values()):
        network.zero_grad()
    plugin.compute_loss(policy, batch).total.backward()
    found = [p.grad.clone() for p in policy.parameters()]
    policy.zero_grad()
    distribution = policy.distribution(batch.obs)
    (-distribution.log_prob(distribution.from_env_action(batch.actions)).mean()).backward()
    for gradient, parameter in zip(found, policy.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad)
    assert all(p.grad is None for p in plugin.target.module.parameters())
    for network in (plugin.critics, plugin.value):
        assert all(p.grad is not None for p in network.parameters())


def test_td3_bc(offline, record):
    run, plugin, batch = started(offline, record, "td3_bc", BOX)
    policy = run.policy
    seen, following = (policy.normalizer(each)["observation"] for each in (batch.obs, batch.next_obs))

    def q(critics, number, obs, actions):
        return value(critics, number, torch.cat([obs, actions], -1)).squeeze(-1)

    batch.objective = "critic"
    state = plugin.noise.get_state()
    loss = plugin.compute_loss(policy, batch)
    plugin.noise.set_state(state)
    with torch.no_grad():
        noise = (0.2 * torch.randn(64, 2, generator=plugin.noise)).clamp(-0.5, 0.5)
        moved = (torch.tanh(means(plugin.targets.policy.module, following)) + noise).clamp(-1, 1)
        least = torch.minimum(*(q(plugin.targets.critics.module, number, following, moved) for number in range(2)))
        y = batch.extra["reward"] + batch.extra["discount"] * least
        taken = units(batch.actions["action"])
        expected = sum(F.mse_loss(q(plugin.critics, number, seen, taken), y) for number in range(2))
    torch.testing.assert_close(loss.total.detach(), expected, rtol=1e-4, atol=1e-5)

    batch.objective = "policy"
    policy.zero_grad()
    plugin.critics.zero_grad()
    loss = plugin.compute_loss(policy, batch)
    loss.total.backward()
    assert all(parameter.grad is None for parameter in plugin.critics.parameters())
    found = [p.grad.clone() for p in policy.parameters() if p.requires_grad]
    policy.zero_grad()
    acted = torch.tanh(means(policy, seen))
    values = q(plugin.critics, 0, seen, acted)
    weight = 2.5 / values.abs().mean().item()
    expected = -weight * values.mean() + F.mse_loss(acted, taken)
    expected.backward()
    torch.testing.assert_close(loss.total, expected, rtol=1e-4, atol=1e-5)
    learning = [p for p in policy.parameters() if p.requires_grad]
    for gradient, parameter in zip(found, learning, strict=True):
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("lagrange", [None, 3.0])
def test_cql(offline, record, lagrange):
    values = {"algorithm.sampled_actions": 4, "algorithm.lagrange_gap": lagrange, "algorithm.alpha": 2.0}
    run, plugin, batch = started(offline, record, "cql", BOX, values)
    policy, seen, following = run.policy, batch.obs["observation"], batch.next_obs["observation"]
    networks = {"policy": policy, **plugin.modules()}
    for network in networks.values():
        network.zero_grad()
    state = plugin.noise.get_state()
    loss = plugin.compute_loss(policy, batch)
    loss.total.backward()
    found = {name: [p.grad for p in network.parameters()] for name, network in networks.items()}
    for network in networks.values():
        network.zero_grad()
    plugin.noise.set_state(state)

    def q(critics, number, obs, actions):
        return value(critics, number, torch.cat([obs.expand(*actions.shape[:-1], 3), actions], -1)).squeeze(-1)

    def draw(obs):
        mean, log_std = (part.expand(64, 2) for part in outputs(policy, obs))
        normal = torch.distributions.Normal(mean, log_std.exp())
        drawn = mean + log_std.exp() * torch.randn((5, 64, 2), generator=plugin.noise)
        # The density of the tanh: the normal's over the slope.
        return torch.tanh(drawn), (normal.log_prob(drawn) - torch.log1p(-(torch.tanh(drawn) ** 2))).sum(-1)

    taken = units(batch.actions["action"])
    with torch.no_grad():
        then, then_density = draw(following)
        target = plugin.target.module
        least = torch.minimum(q(target, 0, following, then[0]), q(target, 1, following, then[0]))
        y = batch.extra["reward"] + batch.extra["discount"] * least
    now, density = draw(seen)
    evenly = 2 * torch.rand((4, 64, 2), generator=plugin.noise) - 1
    actions = torch.cat([evenly, now[1:], then[1:]]).detach()
    logs = torch.cat([torch.full((4, 64), np.log(0.25)), density[1:], then_density[1:]]).detach()
    gaps = [
        (q(plugin.critics, k, seen, actions) - logs).exp().mean(0).log().mean()
        - q(plugin.critics, k, seen, taken).mean()
        for k in range(2)
    ]
    errors = sum(F.mse_loss(q(plugin.critics, k, seen, taken), y) for k in range(2))
    alpha = 2.0 if lagrange is None else plugin._alpha.log.exp()
    weight = 2.0 if lagrange is None else alpha.detach()
    critic_loss = errors + weight * sum(gaps)
    coefficient = plugin._entropy.log.exp().detach()
    frozen = torch.minimum(q(plugin.critics, 0, seen, now[0]), q(plugin.critics, 1, seen, now[0]))
    policy_loss = (coefficient * density[0] - frozen).mean()
    parts = [
        ("critics", critic_loss),
        ("policy", policy_loss),
        ("entropy", plugin._entropy.log * (-density[0].mean().detach() + 2)),  # its entropy shall be -2
    ]
    if lagrange:
        parts.append(("alpha", -alpha * (sum(gaps).detach() - 2 * lagrange)))
    for name, wanted in parts:
        gradients = torch.autograd.grad(wanted, list(networks[name].parameters()), retain_graph=True)
        for gradient, other in zip(found[name], gradients, strict=True):
            torch.testing.assert_close(gradient, other, rtol=2e-3, atol=1e-5, msg=name)
    assert all(gradient is None for gradient in found["critic_target"])
    torch.testing.assert_close(loss.metrics["gap"], sum(gaps).detach() / 2, rtol=1e-4, atol=1e-4)


def outputs(policy, seen):
    """Mean and log standard deviation of the policy's normal; by ordinary layers."""
    distribution = policy.distribution({"observation": seen}).parts["action"]
    torch.testing.assert_close(distribution.mean, means(policy, seen)[:, :2])
    return distribution.mean, distribution.log_std


def test_observations_are_scaled_by_the_whole_data_set(offline, record):
    folder = record(OBSERVATION, BOX)
    run = offline("td3_bc", lambda: SpacesEnv(OBSERVATION, BOX), folder).run
    rows = np.load(folder / "observations" / "observation.npy").astype(np.float64)
    ends = np.cumsum([6, 2, 10, 5, 7, 4, 9]) - 1  # the final observations, from which no action was taken
    rows = np.delete(rows, ends, 0)
    ((mean, std),) = run.policy.normalizer.statistics().values()
    np.testing.assert_allclose(mean, rows.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(std, rows.std(0), rtol=1e-5)


def test_returns_span_a_thousand(offline, record):
    """Episodes of 1 to 9 steps with a reward of 2 each: returns from 2 to 18, so a reward becomes 2 * 1000 / 16."""
    folder = record(OBSERVATION, BOX, reward=lambda obs, actions: np.full(len(obs["observation"]) - 1, 2.0))
    values = {"algorithm.normalize_returns": True}
    run = offline("iql", lambda: SpacesEnv(OBSERVATION, BOX), folder, values).run
    (batch,) = run.algorithm.batches()
    assert batch.extra["reward"].unique().tolist() == [125.0]
