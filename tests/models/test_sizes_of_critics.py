"""A separate critic may have other sizes than the policy."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import SeededWalk

from maze_core.base.errors import ConfigError

OVERRIDES = {"evaluation.n_episodes": 0}

IMAGE = spaces.Box(0, 255, (16, 16, 3), np.uint8)
SETS = spaces.Dict({"piece": spaces.Box(0, 1, (4, 3)), "own": spaces.Box(0, 1, (2,))})
MIXED = spaces.Dict({"near": spaces.Box(-1, 1, (3,)), "kind": spaces.Discrete(4)})


def env_of(space):
    class Env(gymnasium.Env):
        observation_space, action_space = space, spaces.Discrete(3)

        def __init__(self):
            self.observation_space.seed(0)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._left = 5
            return self.observation_space.sample(), {}

        def step(self, action):
            self._left -= 1
            return self.observation_space.sample(), float(action), self._left == 0, False, {}

    return Env


MODELS = {
    "mlp": (spaces.Box(-1, 1, (3,)), "hidden", [8], [32, 16]),
    "cnn": (IMAGE, "hidden", [8], [32, 16]),
    "template": (MIXED, "hidden", [8], [32, 16]),
    "set_template": (SETS, "hidden", [8], [32, 16]),
    "simba": (spaces.Box(-1, 1, (3,)), "width", 8, 16),
}


@pytest.mark.parametrize(
    ("model", "memory"), [(model, ("none", "gru")[number % 2]) for number, model in enumerate(MODELS)]
)
def test_a_critic_of_another_size_learns(quick, model, memory):
    space, name, own, of_critic = MODELS[model]
    values = {f"model.{name}": own, f"model.critic_{name}": of_critic, "model.memory": memory}
    values |= {"model.image_features": 8} if model == "cnn" else {}
    context = quick(env_of(space), "ppo", {"model.name": model, **values})
    policy, last = context.policy, {8, 16}
    assert {policy.encoder.out_features, policy.critic_encoder.out_features} == last
    assert policy.encoder.out_features == 8
    before = [parameter.clone() for parameter in policy.critic_encoder.parameters()]
    context.train()
    assert any(bool((a != b).any()) for a, b in zip(before, policy.critic_encoder.parameters(), strict=True))


def test_formulas_and_autograd_agree(quick):
    values = {
        "model.hidden": [8],
        "model.critic_hidden": [16, 12],
        "algorithm.n_epochs": 1,
        "algorithm.epoch_length": 1,
    }
    formulas, autograd = (quick("CartPole-v1", "ppo", {**values, "closed_form": it}) for it in (True, False))
    for context in (formulas, autograd):
        context.train()
    pairs = zip(formulas.policy.parameters(), autograd.policy.parameters(), strict=True)
    assert all(ours.allclose(theirs, atol=1e-4) for ours, theirs in pairs)


@pytest.mark.parametrize(
    ("algorithm", "values", "way"),
    [
        ("ppo", {"model.critic": "shared", "model.critic_hidden": [8]}, '"model.critic": "separate"'),
        (
            "ppo",
            {"model.critic": "shared", "model.name": "simba", "model.critic_width": 8},
            '"model.critic": "separate"',
        ),
        ("dqn", {"model.critic_hidden": [8]}, "leave it out"),
    ],
)
def test_a_critic_without_layers_of_its_own_has_no_size(quick, algorithm, values, way):
    with pytest.raises(ConfigError, match=r"model\.critic_(hidden|width): is the size of a critic") as error:
        quick(SeededWalk, algorithm, values).run  # noqa: B018
    assert way in str(error.value)
