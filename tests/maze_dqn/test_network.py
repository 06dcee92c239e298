"""The value network: masks, branches, streams and noise, for actions of every kind."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_dqn.network import NoisyDense, value_network
from maze_dqn.returns import Expected, Probabilities, Quantiles

from maze_core.base.errors import ConfigError
from maze_core.models.mlp import MlpConfig, MlpModel

CONFIG = MlpConfig(name="mlp", critic="none", hidden=(8,))
ROWS = 20
X = spaces.Box(-1, 1, (3,), np.float32)
KINDS = {
    "discrete": (spaces.Discrete(4), {"action_mask": spaces.MultiBinary(4)}),
    "multi": (spaces.MultiDiscrete([2, 4, 3]), {"action_mask": spaces.MultiBinary(9)}),
    "bits": (spaces.MultiBinary(3), {"action_mask": spaces.MultiBinary(3)}),
    "dict": (
        spaces.Dict({"a": spaces.Discrete(3), "b": spaces.MultiBinary(2), "c": spaces.MultiDiscrete([2, 3])}),
        {"b_mask": spaces.MultiBinary(2), "c_mask": spaces.MultiBinary(5)},
    ),
}
CHOICES = {
    ("discrete", "action_mask"): [(0, 4)],
    ("multi", "action_mask"): [(0, 2), (2, 6), (6, 9)],
    ("dict", "c_mask"): [(0, 2), (2, 5)],
}
"""The entries of a mask by member; bits need none."""
RETURNS = {"expected": Expected, "quantile": lambda: Quantiles(5), "categorical": lambda: Probabilities(7, -2, 2)}


def network(kind, masked=True, returns="expected", **options):
    action_space, masks = KINDS[kind]
    seen = spaces.Dict({"x": X, **(masks if masked else {})})
    torch.manual_seed(0)
    policy = MlpModel(CONFIG).build_policy(seen, action_space, CONFIG)
    return value_network(policy, RETURNS[returns](), CONFIG, **options)


def observations(kind, masked=True):
    """Observations, with masks that leave each member of a choice at least one."""
    rng = np.random.default_rng(0)
    obs = {"x": torch.tensor(rng.normal(size=(ROWS, 3)), dtype=torch.float32)}
    for key, space in (KINDS[kind][1] if masked else {}).items():
        mask = rng.integers(0, 2, (ROWS, int(space.n)))
        for start, stop in CHOICES.get((kind, key), []):
            mask[np.arange(ROWS), rng.integers(start, stop, ROWS)] = 1
        obs[key] = torch.tensor(mask, dtype=torch.int8)
    return obs


def members(kind):
    """(leaf, number within the leaf, choices) of each member."""
    space = KINDS[kind][0]
    leaves = dict(space.items()) if isinstance(space, spaces.Dict) else {"action": space}
    for key, leaf in leaves.items():
        if isinstance(leaf, spaces.Discrete):
            sizes = [leaf.n]
        else:
            sizes = leaf.nvec if isinstance(leaf, spaces.MultiDiscrete) else [2] * leaf.n
        for number, size in enumerate(sizes):
            yield key, leaf, number, int(size)


def allowed(obs, key, leaf, number, row):
    """The choices of a member that the masks allow."""
    mask = obs.get(f"{key}_mask")
    if isinstance(leaf, spaces.MultiBinary):
        return [0, 1] if mask is None or mask[row, number] else [0]
    sizes = [int(leaf.n)] if isinstance(leaf, spaces.Discrete) else [int(n) for n in leaf.nvec]
    start = sum(sizes[:number])
    return [i for i in range(sizes[number]) if mask is None or mask[row, start + i]]


@pytest.mark.parametrize("returns", RETURNS)
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_best_choices_are_those_of_a_search(kind, masked, returns):
    """Member by member, among what the masks allow; acting and the targets agree."""
    net, obs = network(kind, masked, returns), observations(kind, masked=masked)
    with torch.no_grad():
        atoms = net.atoms(obs)
        values, best, mode = net.returns.mean(atoms), net.best(atoms, obs), net.distribution(obs).mode()
        value = net.value(obs)
    for row in range(len(values)):
        start, total = 0, []
        for member, (key, leaf, number, size) in enumerate(members(kind)):
            choices = allowed(obs, key, leaf, number, row)
            expected = max(choices, key=lambda i, start=start: values[row, start + i].item())
            assert best[row, member] == start + expected
            acted = mode[key][row] if isinstance(leaf, spaces.Discrete) else mode[key][row, number]
            assert acted == expected
            total.append(values[row, start + expected])
            start += size
        torch.testing.assert_close(value[row], torch.stack(total).mean())
    chosen = net.at(atoms, net.actions.indices(mode))
    torch.testing.assert_close(chosen, net.at(atoms, best))


def test_where_everything_is_forbidden_the_value_is_still_one_of_the_network():
    """The observation after an episode may forbid everything; -1e9 must not enter a target."""
    net, obs = network("multi"), observations("multi")
    obs["action_mask"][:] = 0
    assert net.value(obs).abs().max() < 100


@pytest.mark.parametrize("returns", RETURNS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_duel_is_the_value_plus_the_advantages_over_their_members_mean(kind, returns):
    net, obs = network(kind, returns=returns, dueling=True, hidden=(6,)), observations(kind)
    with torch.no_grad():
        features = net.encoder(obs)
        advantages = net.heads["choices"](features).reshape(ROWS, -1, net.returns.atoms)
        value = net.heads["observation"](features)
        start, expected = 0, []
        for *_, size in members(kind):
            part = advantages[:, start : start + size]
            expected.append(value.unsqueeze(1) + part - part.mean(1, keepdim=True))
            start += size
        torch.testing.assert_close(net.atoms(obs), torch.cat(expected, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_samples_follow_the_masks_too(kind):
    net, obs = network(kind), observations(kind)
    with torch.no_grad():
        distribution = net.distribution(obs)
        for _ in range(5):
            samples = distribution.sample(net.draw_noise((ROWS,), torch.Generator()))
            for row, (key, leaf, number, _) in itertools.product(range(ROWS), members(kind)):
                drawn = samples[key][row] if isinstance(leaf, spaces.Discrete) else samples[key][row, number]
                assert int(drawn) in allowed(obs, key, leaf, number, row)


def test_a_temperature_divides_the_logits_only():
    plain, warm = network("discrete", masked=False), network("discrete", masked=False)
    warm.temperature = 4.0
    obs = observations("discrete", masked=False)
    torch.testing.assert_close(
        warm.distribution(obs).parts["action"].logits * 4, plain.distribution(obs).parts["action"].logits
    )
    torch.testing.assert_close(warm.value(obs), plain.value(obs))


def test_noise_is_the_product_of_noise_in_and_out_and_can_be_taken_away():
    layer, features = NoisyDense(5, 3, 0.5), torch.randn(4, 5)
    quiet = layer(features)
    torch.testing.assert_close(quiet, features @ layer.weight.T + layer.bias)
    torch.testing.assert_close(layer.weight_std, torch.full((3, 5), 0.5 / 5**0.5))
    drawn = []
    generator = torch.Generator().manual_seed(0)
    for _ in range(2000):
        layer.resample(generator)
        drawn.append(layer(torch.eye(5)).detach())  # [input, output]
    # Over many draws: the mean is that without noise, the scale of weight and bias noise is E|x|^2 / 5 and E|x|.
    spread = torch.stack(drawn)
    torch.testing.assert_close(spread.mean(0), (layer.weight.T + layer.bias).detach(), atol=0.05, rtol=0)
    expected = 0.25 / 5 * (2 / np.pi + (2 / np.pi) ** 0.5)  # E f(x)^2 = E|x|, of independent numbers
    torch.testing.assert_close(spread.var(0).mean(), torch.tensor(expected, dtype=torch.float32), rtol=0.1, atol=0)
    layer.quiet()
    assert torch.equal(layer(features), quiet)


def test_all_layers_after_the_encoder_are_noisy_and_a_copy_has_its_own_noise():
    net, obs = network("multi", noisy_std=0.5, dueling=True, hidden=(6,)), observations("multi")
    assert sum(isinstance(layer, NoisyDense) for layer in net.modules()) == 4
    with torch.no_grad():
        quiet = net.atoms(obs)
        other = copy.deepcopy(net)
        net.resample(torch.Generator().manual_seed(0))
        assert not torch.equal(net.atoms(obs), quiet)
        assert torch.equal(other.atoms(obs), quiet)
        net.quiet()
        assert torch.equal(net.atoms(obs), quiet)
    assert not any("noise" in name for name in net.state_dict())


def test_a_policy_without_an_encoder_is_refused():
    with pytest.raises(ConfigError, match="encoder"):
        value_network(torch.nn.Linear(2, 2), Expected(), CONFIG)
