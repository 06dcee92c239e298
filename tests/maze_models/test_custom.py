"""Modules of a user's own: encoders, whole policies, and what cannot be either."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_models.custom import CustomModel, wrap_module
from torch import nn

from maze_core.base.errors import ConfigError
from maze_core.models.assembly import ModelConfig
from maze_core.models.mlp import MlpConfig, MlpModel
from maze_core.models.policy import Policy

OBSERVATION = spaces.Box(-1, 1, (4,), np.float32)
ACTION = spaces.Discrete(3)
OBS = {"observation": torch.ones(5, 4)}


class Encoder(nn.Module):
    def __init__(self, observation_space, action_space):
        super().__init__()
        self.out_features = 6 + action_space.n
        self.layer = nn.Linear(observation_space.shape[0], self.out_features)

    def forward(self, obs):
        return self.layer(obs["observation"]).tanh()


class OneArgument(Encoder):
    def __init__(self, observation_space):
        super().__init__(observation_space, ACTION)


def wrap(source, **config) -> nn.Module:
    return wrap_module(source, OBSERVATION, ACTION, ModelConfig(**config))


@pytest.mark.parametrize("source", [Encoder, OneArgument, lambda obs, act: Encoder(obs, act)])
def test_an_encoder_gets_heads_and_a_critic_of_its_own(source):
    policy = wrap(source)
    assert isinstance(policy, Policy)
    distribution, value = policy(OBS)
    assert distribution.entropy().shape == value.shape == (5,)
    assert policy.critic_encoder is not policy.encoder
    assert not policy.critic_encoder.layer.weight.equal(policy.encoder.layer.weight)
    weight = policy.encoder.layer.weight
    assert (weight.T @ weight - 2 * torch.eye(4)).abs().max() > 0.1  # its own initialisation is left alone


def test_a_ready_encoder_is_copied_once_for_the_policy_and_once_for_the_critic():
    encoder = Encoder(OBSERVATION, ACTION)
    policy = wrap(encoder)
    assert len({id(each) for each in (encoder, policy.encoder, policy.critic_encoder)}) == 3
    assert wrap(encoder, critic="shared").critic_encoder is None
    assert not wrap(encoder, critic="none").has_critic


def test_a_policy_is_used_as_it_is():
    config = MlpConfig(name="mlp")
    ready = MlpModel(config).build_policy(OBSERVATION, ACTION, config)
    copied = wrap(ready)
    assert type(copied) is type(ready)
    assert copied is not ready
    assert wrap(lambda obs, act: ready) is ready


def test_the_plugin_builds_from_the_class():
    plugin = CustomModel.of(Encoder)
    config = plugin.Config(name="custom", critic="shared")
    policy = plugin(config).build_policy(observation_space=OBSERVATION, action_space=ACTION, config=config)
    assert isinstance(policy.encoder, Encoder)
    assert isinstance(pickle.loads(pickle.dumps(plugin))(config), CustomModel)  # as for a worker


class NoWidth(nn.Module):
    def forward(self, obs):
        return obs["observation"]


class WrongWidth(Encoder):
    def forward(self, obs):
        return super().forward(obs)[:, :2]


class WrongKey(Encoder):
    def forward(self, obs):
        return self.layer(obs["observations"])


class HalfPolicy(nn.Module):
    def distribution(self, obs): ...

    def value(self, obs): ...


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (NoWidth, "NoWidth has neither"),
        (nn.Linear(4, 2), "Linear.forward failed"),
        (WrongWidth, r"returned \(2, 2\) for two rows, not a tensor of shape \(2, 9\)"),
        (WrongKey, "KeyError"),
        (HalfPolicy, "lacks draw_noise, forward"),
        (lambda obs, act: 3, "returned int"),
        (lambda: NoWidth(), "NoWidth has neither"),
        (lambda a, b, c: NoWidth(), "needs other arguments"),
        (3, "got int"),
    ],
)
def test_anything_else_is_an_error_that_explains_both_ways(source, problem):
    with pytest.raises(ConfigError, match=rf"({problem})[\s\S]*out_features[\s\S]*distribution, value, draw_noise"):
        wrap(source)


class Lazy(nn.Module):
    out_features = 4

    def __init__(self):
        super().__init__()
        self.layer = nn.LazyLinear(4)

    def forward(self, obs):
        return self.layer(next(iter(obs.values())).float())


class Wide(Lazy):
    def forward(self, obs):
        return super().forward(obs).double()


class Half(Lazy):
    def forward(self, obs):
        return super().forward(obs).half()


class Squeezed(Lazy):
    def forward(self, obs):
        return super().forward(obs).squeeze()


class Fixed(Lazy):
    def forward(self, obs):
        return super().forward(obs).reshape(2, 4)


class Several(Lazy):
    def forward(self, obs):
        return super().forward(obs), None


@pytest.mark.parametrize("critic", ["separate", "shared", "none"])
def test_lazy_layers_have_their_parameters_in_actor_and_critic(critic):
    space = spaces.Box(-1, 1, (3,))
    policy = wrap_module(Lazy, space, spaces.Discrete(2), ModelConfig(name="custom", critic=critic))
    assert all(not nn.parameter.is_lazy(each) for each in policy.parameters())


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (Wide, "returned torch.float64, not torch.float32"),
        (Half, "returned torch.float16"),
        (Squeezed, "for one row, as when it acts in a single environment"),
        (Fixed, "forward failed on observation"),
        (Several, "returned tuple for two rows"),
    ],
)
def test_an_encoder_that_would_fail_later_is_refused_at_once(encoder, message):
    with pytest.raises(ConfigError, match=message):
        wrap_module(encoder, spaces.Box(-1, 1, (3,)), spaces.Discrete(2), ModelConfig(name="custom"))
