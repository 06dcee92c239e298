"""Twin critics against two separate networks, and who gets gradients."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_memories.recurrent import GruMemory, RecurrentConfig
from maze_models.custom import wrap_module
from maze_models.template import TemplateConfig, TemplateModel
from maze_offpolicy.learn.targets import Target
from maze_offpolicy.models.critics import StateActionCritics, build_critics
from maze_sac.actions import Temperature

from maze_core.base.errors import ConfigError, PluginError
from maze_core.data.sequences import Sequences
from maze_core.models.assembly import ModelConfig
from maze_core.models.inputs import FlatInput
from maze_core.models.mlp import MlpConfig, MlpModel

LEAVES = {"x": spaces.Box(-1, 1, (3,), np.float32), "mode": spaces.Discrete(2)}
OBS = {"x": torch.randn(6, 3), "mode": torch.tensor([0, 1, 1, 0, 1, 0])}


def build(outputs=1, box_size=2, activation="relu"):
    torch.manual_seed(0)
    return StateActionCritics(FlatInput(LEAVES), box_size, outputs, (8, 7), activation)


def separate(critics, number):
    """The same critic as an ordinary network."""
    layers = []
    for layer in range(3):
        weight = getattr(critics, f"weight_{layer}")[number]
        linear = torch.nn.Linear(*weight.shape)
        linear.weight.data.copy_(weight.T)
        linear.bias.data.copy_(getattr(critics, f"bias_{layer}")[number, 0])
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("outputs", [1, 5])
@pytest.mark.parametrize("box_size", [0, 2])
def test_both_critics_equal_separate_networks_with_their_gradients(outputs, box_size):
    critics = build(outputs, box_size)
    box = torch.randn(6, box_size, requires_grad=True) if box_size else None
    values = critics.values(critics.features(OBS), box)
    weights = torch.randn(2, 6, outputs)
    (values * weights).sum().backward()
    flat = torch.cat([OBS["x"], torch.nn.functional.one_hot(OBS["mode"], 2).float()], -1)
    again = torch.zeros(6, box_size)
    for number in (0, 1):
        network = separate(critics, number)
        own = box.detach().clone().requires_grad_() if box_size else None
        result = network(flat if own is None else torch.cat([flat, own], -1))
        torch.testing.assert_close(values[number], result)
        (result * weights[number]).sum().backward()
        torch.testing.assert_close(critics.weight_1.grad[number], network[2].weight.grad.T)
        torch.testing.assert_close(critics.weight_2.grad[number], network[4].weight.grad.T)
        torch.testing.assert_close(critics.bias_2.grad[number, 0], network[4].bias.grad)
        again = again + own.grad if own is not None else again
    if box is not None:
        torch.testing.assert_close(box.grad, again)


@pytest.mark.parametrize("outputs", [1, 3])
def test_frozen_critics_give_gradients_to_actions_only(outputs):
    critics = build(outputs)
    box = torch.randn(6, 2, requires_grad=True)
    frozen = critics.values(critics.features(OBS).detach(), box, frozen=True)
    torch.testing.assert_close(frozen, critics.values(critics.features(OBS), box))
    frozen.sum().backward()
    assert all(parameter.grad is None for parameter in critics.parameters())
    assert (box.grad != 0).any()


def test_twins_differ():
    values = build().values(build().features(OBS), torch.zeros(6, 2))
    assert not torch.allclose(values[0], values[1])


def test_targets_start_equal_and_follow_by_tau():
    critics = build()
    targets = Target(critics)
    before = copy.deepcopy(dict(targets.module.named_parameters()))
    for name, parameter in critics.named_parameters():
        torch.testing.assert_close(parameter, before[name])
    with torch.no_grad():
        for parameter in critics.parameters():
            parameter += 1
    targets.follow(0.25)
    for name, parameter in targets.module.named_parameters():
        torch.testing.assert_close(parameter, before[name] + 0.25)
        assert not parameter.requires_grad
    # What a checkpoint brings is what is followed from then on.
    targets.module.load_state_dict(before)
    targets.follow(1.0)
    for name, parameter in targets.module.named_parameters():
        torch.testing.assert_close(parameter, before[name] + 1)


def test_temperature():
    """Entropy above its target lets the coefficient fall; the loss has shape ()."""
    temperature = Temperature(0.2, learns=True)
    assert temperature.coefficient().item() == pytest.approx(0.2)
    loss = temperature.loss(torch.tensor(0.7))
    assert loss.shape == ()
    loss.backward()
    assert temperature.log_coef.grad.item() == pytest.approx(0.7)  # downhill is down
    assert Temperature(0.0, learns=False).coefficient().item() == 0
    assert not Temperature(0.2, learns=False).log_coef.requires_grad


IMAGES = spaces.Dict({"camera": spaces.Box(0, 255, (8, 9, 3), np.uint8), "x": spaces.Box(-1, 1, (3,), np.float32)})


def test_images_pass_an_encoder_of_each_critic():
    config = TemplateConfig(name="template", critic="none", distribution="squashed_gaussian", state_dependent_std=True)
    action = spaces.Box(-1, 1, (2,), np.float32)
    policy = TemplateModel(config).build_policy(IMAGES, action, config)
    critics = build_critics(policy, 2, 1, (8,), "relu")
    targets = Target(critics)
    obs = {"camera": torch.randint(256, (5, 8, 9, 3), dtype=torch.uint8), "x": torch.randn(5, 3)}
    features = critics.features(obs)
    assert features.shape == (2, 5, policy.encoder.out_features)
    critics.values(features, torch.zeros(5, 2))[0].sum().backward()
    # The first critic's loss moves the first critic's encoder, and the policy's stays out of it.
    first, second = critics.encoders
    assert all(p.grad is not None and (p.grad != 0).any() for p in first.parameters())
    assert all(p.grad is None or not (p.grad != 0).any() for p in second.parameters())
    assert all(p.grad is None for p in policy.parameters())
    with torch.no_grad():
        next(iter(first.parameters())).add_(1.0)
    targets.follow(1.0)
    torch.testing.assert_close(targets.module.features(obs), critics.features(obs))


def test_a_users_encoder_is_used_and_a_policy_without_one_sees_flat_observations():
    class Encoder(torch.nn.Module):
        def __init__(self, observation_space):
            super().__init__()
            self.out_features, self.layer = 4, torch.nn.Linear(3, 4)

        def forward(self, obs):
            return self.layer(obs["x"])

    leaves = spaces.Dict({"x": LEAVES["x"]})
    policy = wrap_module(Encoder, leaves, spaces.Discrete(2), ModelConfig(critic="none"))
    critics = build_critics(policy, 0, 2, (8,), "relu")
    assert [type(encoder) for encoder in critics.encoders] == [Encoder, Encoder]
    del policy.encoder
    assert isinstance(build_critics(policy, 0, 2, (8,), "relu").encoders[0], FlatInput)
    policy.observation_space = IMAGES
    with pytest.raises(ConfigError, match="need an encoder for the image 'camera'"):
        build_critics(policy, 0, 2, (8,), "relu")


def test_targets_copy_buffers_such_as_running_statistics():
    network = torch.nn.BatchNorm1d(3)
    target = Target(network)
    network(torch.randn(8, 3) + 5)
    target.follow(0.5)
    assert target.module.running_mean.equal(network.running_mean)
    assert target.module.running_mean.data_ptr() != network.running_mean.data_ptr()


@pytest.mark.parametrize(
    "network",
    [
        torch.nn.Identity(),
        torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Tanh()),
        torch.nn.BatchNorm1d(3, affine=False),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_target_of_a_network_without_parameters_follows_all_the_same(network):
    target = Target(network)
    network(torch.randn(8, 3) + 5)
    target.follow(0.1)
    x = torch.randn(4, 3)
    assert target.module.eval()(x).equal(network.eval()(x))


@pytest.mark.parametrize("name", ["mlp", "template"])
@pytest.mark.parametrize("memory", [None, "own", "shared"])
def test_critics_see_the_leaves_that_are_theirs_alone_whatever_the_encoder(name, memory):
    """Also where they copy the policy's encoder, which does not see these leaves."""
    hidden = {"position": spaces.Box(-9, 9, (2,), np.float32), "kind": spaces.Discrete(3)}
    seen = spaces.Dict({"x": spaces.Box(-1, 1, (3,), np.float32), "critic": spaces.Dict(hidden)})
    model, config = {"mlp": (MlpModel, MlpConfig), "template": (TemplateModel, TemplateConfig)}[name]
    settings = config(name=name, critic="none")
    policy = model(settings).build_policy(seen, spaces.Discrete(4), settings)
    make = (lambda features: GruMemory(features, RecurrentConfig(size=5))) if memory else None
    critics = build_critics(policy, 0, 4, (8,), "relu", make_memory=make, share_memory=memory == "shared")
    obs = {"x": torch.randn(6, 3), "critic/position": torch.randn(6, 2), "critic/kind": torch.arange(6) % 3}
    obs["critic/position"].requires_grad_()
    sequences = Sequences(np.array([4, 2]), critics.initial_state(2)) if memory else None
    values = critics.values(critics.features(obs, sequences), None)
    assert values.shape == (2, 6, 4)
    for critic in values:
        (gradient,) = torch.autograd.grad(critic.sum(), obs["critic/position"], retain_graph=True)
        assert (gradient != 0).any(-1).all()
    if memory:
        assert len(critics.memories.memories) == (1 if memory == "shared" else 2)
        with pytest.raises(PluginError, match="without their sequences"):
            critics.features(obs)
        after = critics.state_after(obs, sequences)
        assert {leaf.shape[0] for leaf in after.values()} == {2}
