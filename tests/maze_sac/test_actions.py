"""Every action space: values add up over heads as in the enumerated joint, entropies have their sign and size."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_offpolicy.models.joint_actions import JointActions
from maze_sac.actions import decide, target_entropy

from maze_core.envs.spaces import allocate, space_specs
from maze_core.models.assembly import ModelConfig, assemble_policy
from maze_core.models.blocks import MLP
from maze_core.models.inputs import FlatInput, input_spaces
from tests.maze_sac.enumeration import every_action, expectation

ROWS = 5
PLAIN = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))
DISCRETE = {
    "discrete": spaces.Discrete(4, start=7),
    "multi": spaces.MultiDiscrete([2, 4, 3]),
    "bits": spaces.MultiBinary(3),
    "dict": spaces.Dict({"a": spaces.Discrete(3), "b": spaces.MultiBinary(2), "c": spaces.MultiDiscrete([2, 3])}),
}
MIXED = spaces.Dict({"tool": spaces.Discrete(3), "force": BOX, "switch": spaces.MultiBinary(1)})


class Encoder(torch.nn.Module):
    def __init__(self, leaves):
        super().__init__()
        self.input = FlatInput(leaves)
        self.trunk = MLP(self.input.out_features, (8,), "tanh")
        self.out_features = 8

    def forward(self, obs):
        return self.trunk(self.input(obs))


def policy_for(action_space, observation_space=PLAIN):
    torch.manual_seed(0)
    config = ModelConfig(critic="none", distribution="squashed_gaussian", state_dependent_std=True)
    leaves = input_spaces(observation_space, action_space)
    policy = assemble_policy(observation_space, action_space, config, lambda: Encoder(leaves))
    for parameter in policy.heads.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return policy


def observations(observation_space=PLAIN, seed=0):
    rng = np.random.default_rng(seed)
    tree = allocate(space_specs(observation_space, "observation"), (ROWS,))
    for leaf in tree.values():
        leaf[...] = rng.normal(size=leaf.shape) if leaf.dtype.kind == "f" else rng.integers(0, 2, leaf.shape)
    return {key: torch.from_numpy(leaf) for key, leaf in tree.items()}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_expectation_and_entropy_equal_enumeration(name):
    """The sums over heads equal the joint distribution's."""
    space = DISCRETE[name]
    policy, actions = policy_for(space), JointActions(PLAIN, space)
    distribution = policy.distribution(observations())
    values = torch.randn(2, ROWS, actions.outputs)
    expected, entropy, total = torch.zeros(ROWS), torch.zeros(ROWS), torch.zeros(ROWS)
    for action in every_action(space, ROWS):
        log_prob = distribution.log_prob(action)
        expected += log_prob.exp() * actions.chosen(values, action)[0]
        entropy -= log_prob.exp() * log_prob
        total += log_prob.exp()
    decision = decide(actions, distribution, {})
    torch.testing.assert_close(total, torch.ones(ROWS))
    torch.testing.assert_close(decision.expected(values[0]), expected)
    torch.testing.assert_close(-decision.negative_entropy, entropy)
    torch.testing.assert_close(-decision.negative_entropy, distribution.entropy())
    assert decision.box is None
    assert actions.canonical(action) is None


@pytest.mark.parametrize("name", [*DISCRETE, "mixed"])
def test_the_lesser_twin_is_chosen_by_the_expectation_over_joint_actions(name):
    """However the twins split a value among the choices; a minimum choice by choice falls below both."""
    space = MIXED if name == "mixed" else DISCRETE[name]
    policy, actions = policy_for(space), JointActions(PLAIN, space)
    distribution = policy.distribution(observations())
    values = torch.randn(2, ROWS, actions.outputs)
    lesser = expectation(distribution, space, values).min(0).values
    decision = decide(actions, distribution, policy.draw_noise((ROWS,), torch.Generator().manual_seed(0)))
    torch.testing.assert_close(decision.least(values), lesser)
    torch.testing.assert_close(decision.least(values.flip(0)), lesser)


@pytest.mark.parametrize("name", ["multi", "bits", "dict"])
def test_how_the_twins_split_a_value_among_members_does_not_matter(name):
    """Only the sum over an action's choices is ever learnt."""
    space = DISCRETE[name]
    policy, actions = policy_for(space), JointActions(PLAIN, space)
    decision = decide(actions, policy.distribution(observations()), {})
    values = torch.randn(2, ROWS, actions.outputs)
    # Moved from one member to the other: all choices of the first are worth more, all of the last less.
    members = torch.bucketize(torch.arange(actions.outputs), actions.starts, right=True)
    shift = 5.0 * (members == members.min()) - 5.0 * (members == members.max())
    torch.testing.assert_close(decision.least(values + torch.stack((shift, -shift))[:, None]), decision.least(values))


def test_box_leaves_are_scaled_to_one_range_and_their_density_is_that_of_the_range():
    """With the full Jacobian, in [-1, 1]."""
    policy, actions = policy_for(BOX), JointActions(PLAIN, BOX)
    distribution = policy.distribution(observations())
    noise = policy.draw_noise((ROWS,), torch.Generator().manual_seed(0))
    decision = decide(actions, distribution, noise)
    samples = distribution.sample(noise)
    taken = distribution.env_action(samples)
    torch.testing.assert_close(actions.canonical(taken), decision.box)
    low, high = actions.canonical({"action": torch.tensor([[-2.0, 0.0], [2.0, 10.0]])})
    assert (low.tolist(), high.tolist()) == ([-1, -1], [1, 1])
    # The density in the environment's units is smaller by the units' size, 2 times 5.
    torch.testing.assert_close(decision.negative_entropy, distribution.log_prob(samples) + math.log(2 * 5))
    assert decision.negative_entropy.shape == (ROWS,)
    assert actions.chosen(torch.randn(2, ROWS, 1), taken).shape == (2, ROWS)


def test_the_density_integrates_to_one():
    actions = JointActions(PLAIN, spaces.Box(-3, 3, (1,), np.float32))
    policy = policy_for(spaces.Box(-3, 3, (1,), np.float32))
    row = {"observation": torch.ones(1, 3)}
    # Noise on a grid: the change of variables from noise to the action in [-1, 1] is checked numerically.
    noise = torch.linspace(-6, 6, 20_001).unsqueeze(-1)
    distribution = policy.distribution({"observation": row["observation"].expand(len(noise), -1)})
    decision = decide(actions, distribution, {"action": noise})
    width = decision.box.squeeze(-1).diff()
    middle = decision.negative_entropy.exp()
    integral = ((middle[1:] + middle[:-1]) / 2 * width).sum()
    assert integral.item() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("mean", [20.0, -20.0])
def test_density_and_gradient_stay_finite_far_out(mean):
    policy, actions = policy_for(BOX), JointActions(PLAIN, BOX)
    with torch.no_grad():
        policy.heads["action_head"].linear.bias[:2] = mean
    decision = decide(actions, policy.distribution(observations()), {"action": torch.randn(ROWS, 2)})
    decision.negative_entropy.sum().backward()
    gradients = [p.grad for p in policy.parameters()]
    assert decision.negative_entropy.isfinite().all()
    assert all(g.isfinite().all() for g in gradients)


def test_mixed_actions_add_up():
    policy, actions = policy_for(MIXED), JointActions(PLAIN, MIXED)
    distribution = policy.distribution(observations())
    noise = policy.draw_noise((ROWS,), torch.Generator().manual_seed(0))
    decision = decide(actions, distribution, noise)
    parts = distribution.parts
    sample = parts["force"].sample(noise["force"])
    discrete = parts["tool"].entropy() + parts["switch"].entropy()
    torch.testing.assert_close(decision.negative_entropy, parts["force"].log_prob(sample) + math.log(2 * 5) - discrete)
    assert (actions.box_size, actions.choice_count, actions.outputs) == (2, 5, 5)
    assert (decision.box.shape, decision.probabilities.shape) == ((ROWS, 2), (ROWS, 5))
    torch.testing.assert_close(decision.probabilities.sum(-1), torch.full((ROWS,), 2.0))
    chosen = {"tool": torch.tensor([2]), "force": torch.zeros(1, 2), "switch": torch.tensor([[1]], dtype=torch.int8)}
    values = torch.arange(10.0).reshape(2, 1, 5)
    # A Dict space sorts its keys: the switch being 1 is at position 1, choice 2 of the tool at 2 + 2.
    assert actions.chosen(values, chosen).tolist() == [[1 + 4], [6 + 9]]


@pytest.mark.parametrize(
    ("space", "target"),
    [
        (BOX, -2.0),
        (spaces.Box(-0.01, 0.01, (3, 2), np.float32), -6.0),
        (spaces.Discrete(4), 0.98 * math.log(4)),
        (spaces.MultiDiscrete([2, 5]), 0.98 * math.log(10)),
        (spaces.MultiBinary(3), 0.98 * math.log(8)),
        (MIXED, -2 + 0.98 * math.log(3 * 2)),
    ],
)
def test_target_entropy(space, target):
    """Minus the number of dimensions, plus 98 % of the largest entropy of the choices."""
    assert float(target_entropy(JointActions(PLAIN, space), {})) == pytest.approx(target)


def test_masked_choices_have_no_probability_and_do_not_count_for_the_target():
    observation = spaces.Dict(
        {"x": PLAIN, "a_mask": spaces.MultiBinary(3), "b_mask": spaces.MultiBinary(5), "c_mask": spaces.MultiBinary(2)}
    )
    space = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.MultiDiscrete([2, 3]), "c": spaces.MultiBinary(2)})
    policy, actions = policy_for(space, observation), JointActions(observation, space)
    obs = observations(observation)
    masks = [[1, 0, 1], [0, 1, 1, 1, 0], [1, 0]]
    for key, mask in zip("abc", masks, strict=True):
        obs[f"{key}_mask"] = torch.tensor(mask, dtype=torch.int8).expand(ROWS, -1)
    decision = decide(actions, policy.distribution(obs), {})
    bits = decision.probabilities[:, 8:].reshape(ROWS, 2, 2)
    assert decision.probabilities[:, 1].max() == 0
    assert decision.probabilities[:, [3, 7]].max() == 0
    assert bits[:, 1, 1].max() == 0
    decision.negative_entropy.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in policy.parameters())
    # Two of three; one of two and two of three; one free bit and one that must be 0.
    expected = 0.98 * (math.log(2) + math.log(1) + math.log(2) + math.log(2) + math.log(1))
    torch.testing.assert_close(target_entropy(actions, obs), torch.full((ROWS,), expected))
    assert (-decision.negative_entropy <= expected / 0.98 + 1e-5).all()
