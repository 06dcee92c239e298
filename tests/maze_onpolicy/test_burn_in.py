"""The critic's burn-in: not one bit of what the policy does changes, whatever it shares with the critic."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk, SpacesEnv
from torch import nn

from maze_core.base.errors import ConfigError
from maze_core.models.distributions import Categorical
from maze_core.models.distributions.base import TreeDistribution

OVERRIDES = {"evaluation.n_episodes": 0}

OBSERVATION = spaces.Dict({"x": spaces.Box(-5, 9, (3,), np.float32), "pick_mask": spaces.MultiBinary(3)})
ACTIONS = spaces.Dict({
    "pick": spaces.Discrete(3),
    "push": spaces.Box(-1, 3, (2,), np.float32),
    "several": spaces.MultiDiscrete([2, 3]),
    "switches": spaces.MultiBinary(2),
})  # fmt: skip
BURN_IN = {
    "algorithm.critic_burn_in_epochs": 2,
    "algorithm.n_epochs": 3,
    "algorithm.lr": 0.01,
    "algorithm.max_grad_norm": 0.5,
    "model.hidden": [8],
}


OWN = {name: value for name, value in BURN_IN.items() if name.startswith("algorithm")}
"""For models that have no `hidden`."""


class Everything(SpacesEnv):
    """Every kind of action; one choice is masked."""

    def __init__(self):
        super().__init__(copy.deepcopy(OBSERVATION), ACTIONS)

    def observe(self):
        return super().observe() | {"pick_mask": np.array([1, 0, 1], np.int8)}


def what_it_does(policy):
    """Everything that describes the action distribution in some observations, as bytes."""
    generator = torch.Generator().manual_seed(0)
    obs = {"x": 4 * torch.randn(16, 3, generator=generator), "pick_mask": torch.tensor([[1, 0, 1]]).expand(16, -1)}
    if not isinstance(policy.observation_space, spaces.Dict):
        obs = {"observation": obs["x"][:, : policy.observation_space.shape[0]]}
    with torch.no_grad():
        distribution = policy.distribution(obs)
        sample = distribution.mode()
        found = [*sample.values(), distribution.log_prob(sample), distribution.entropy()]
    return [value.numpy().tobytes() for value in found]


def parameters(policy):
    return {name: value.detach().clone() for name, value in policy.named_parameters()}


def moved(policy, start):
    return [name for name, value in policy.named_parameters() if not torch.equal(value, start[name])]


def statistics(policy):
    return {} if policy.normalizer is None else {k: v.clone() for k, v in policy.normalizer.state_dict().items()}


@pytest.mark.parametrize(
    ("algorithm", "model"),
    [
        *((algorithm, {"critic": "shared", "normalize_observations": True}) for algorithm in ("ppo", "impala")),
        ("appo", {"critic": "shared", "normalize_observations": True}),
        ("ppo", {"critic": "separate", "normalize_observations": True}),
        ("ppo", {"critic": "shared", "distribution": "squashed_gaussian", "state_dependent_std": True}),
    ],
)
def test_the_policy_stays_as_it_is_while_the_critic_learns(quick, algorithm, model):
    context = quick(Everything, algorithm, BURN_IN | {f"model.{name}": value for name, value in model.items()})
    policy = context.policy
    before, start, seen = what_it_does(policy), parameters(policy), statistics(policy)
    context.train(2)
    assert what_it_does(policy) == before
    assert all(torch.equal(value, seen[name]) for name, value in statistics(policy).items())
    of_the_critic = [name for name in start if name.startswith(("critic_encoder", "value_head"))]
    assert moved(policy, start) == of_the_critic
    # The optimizer gathered nothing that would move the policy later.
    moments = context.run.learner.optimizer.state_dict()["state"].values()
    assert [any(value.any() for value in each.values()) for each in moments] == [
        name in of_the_critic for name in start
    ]
    assert all(parameter.requires_grad for parameter in policy.parameters())
    context.train(1)
    assert moved(policy, start) == list(start)
    assert policy.normalizer is None or policy.normalizer.count > 0


def test_the_burn_in_goes_on_in_a_resumed_run(quick):
    first = quick(Everything, "ppo", BURN_IN | {"model.critic": "shared", "algorithm.n_epochs": 2})
    before = what_it_does(first.policy)
    first.train(1)
    second = quick(Everything)
    assert second.resume(first.run_dir).epochs == 2
    assert what_it_does(second.policy) == before
    assert not torch.equal(second.policy.value_head.weight, first.policy.value_head.weight)


class Shares(nn.Module):
    """A whole policy of a user's: the first layer is common, the value comes from one more layer, or from the
    logits."""

    def __init__(self, own_layer):
        super().__init__()
        self.trunk, self.logits = nn.Linear(2, 8), nn.Linear(8, 3)
        self.worth = nn.Linear(8, 1) if own_layer else None

    def forward(self, obs):
        hidden = torch.tanh(self.trunk(obs["observation"]))
        logits = self.logits(hidden)
        value = logits.logsumexp(-1) if self.worth is None else self.worth(hidden).squeeze(-1)
        return TreeDistribution({"action": Categorical(logits)}), value

    def distribution(self, obs):
        return self(obs)[0]

    def value(self, obs):
        return self(obs)[1]

    def draw_noise(self, shape, generator):
        return {"action": Categorical.draw_noise((*shape, 3), generator)}


def test_a_policy_of_ones_own_stays_as_it_is(quick):
    context = quick(SeededWalk, "ppo", OWN, model=lambda: Shares(own_layer=True))
    policy = context.policy
    before, worth = what_it_does(policy), policy.worth.weight.clone()
    context.train(2)
    assert what_it_does(policy) == before
    assert not torch.equal(policy.worth.weight, worth)
    context.train(1)
    assert what_it_does(policy) != before


def test_a_critic_without_parameters_of_its_own_is_refused(quick):
    with pytest.raises(ConfigError, match=r"algorithm\.critic_burn_in_epochs: the critic has no parameters"):
        quick(SeededWalk, "ppo", OWN, model=lambda: Shares(own_layer=False)).train()
    quick(SeededWalk, "ppo", model=lambda: Shares(own_layer=False)).train()


def test_a_critic_of_ones_own_beside_a_shared_one_learns_whole(quick):
    from maze_devkit.networks import small_encoder

    context = quick(SeededWalk, "ppo", BURN_IN | {"model.critic": "shared"}, critic=small_encoder)
    start = parameters(context.policy)
    context.train(1)
    assert moved(context.policy, start) == [name for name in start if name.startswith(("critic_encoder", "value_head"))]
