"""The policy: joint distributions, masks, state, copies, and the same numbers for acting and learning."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_models.template import TemplateConfig, TemplateModel
from maze_onpolicy.collect.parameter_arrays import acting_arrays
from torch import nn

from maze_core.base.errors import ConfigError, PluginError
from maze_core.models.blocks import MLP
from maze_core.models.mlp import MlpConfig, MlpModel
from maze_core.models.policy import Policy

BOX = spaces.Box(-1, 1, (4,), np.float32)
TWO = spaces.Discrete(2)
ALL_ACTIONS = spaces.Dict(
    {
        "type": spaces.Discrete(3),
        "arm": spaces.Dict({"steer": spaces.Box(-2, 5, (2,), np.float32), "half": spaces.MultiBinary(2)}),
        "tools": spaces.MultiDiscrete([2, 3]),
    }
)


def build(observation_space=BOX, action_space=TWO, seed=0, **config) -> Policy:
    torch.manual_seed(seed)
    config = MlpConfig(name="mlp", **config)
    return MlpModel(config).build_policy(observation_space, action_space, config)


def observations(rows=6, width=4, seed=0):
    return {"observation": torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))}


def act(policy, obs, seed=0):
    rows = len(next(iter(obs.values())))
    return policy.distribution(obs).sample(policy.draw_noise((rows,), torch.Generator().manual_seed(seed)))


def test_the_joint_of_dict_actions_equals_its_enumeration():
    actions = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.MultiDiscrete([2, 3]), "c": spaces.MultiBinary(2)})
    distribution = build(action_space=actions, orthogonal_init=False).distribution(observations(1))
    rows = [
        {"a": torch.tensor([a]), "b": torch.tensor([b]), "c": torch.tensor([c], dtype=torch.int8)}
        for a in range(3)
        for b in itertools.product(range(2), range(3))
        for c in itertools.product(range(2), range(2))
    ]
    log_probs = torch.cat([distribution.log_prob(row) for row in rows]).double()
    assert log_probs.exp().sum().item() == pytest.approx(1.0, abs=1e-6)
    assert distribution.entropy().item() == pytest.approx(-(log_probs.exp() * log_probs).sum().item(), abs=1e-5)
    # Independent heads: the joint is the product of marginals, which softmax and sigmoid give directly.
    parts = distribution.parts
    pick = rows[31]
    by_hand = parts["a"].logits.softmax(-1)[0, pick["a"][0]].log()
    by_hand = by_hand + sum(parts["b"].choices.logits[0, i].softmax(-1)[pick["b"][0, i]].log() for i in range(2))
    signs = pick["c"][0] * 2 - 1
    by_hand = by_hand + (parts["c"].logits[0] * signs).sigmoid().log().sum()
    assert log_probs[31].item() == pytest.approx(by_hand.item(), abs=1e-6)


def test_every_action_space_has_its_shapes_and_dtypes():
    policy = build(action_space=ALL_ACTIONS)
    distribution, value = policy(observations())
    samples = act(policy, observations())
    actions = distribution.env_action(samples)
    got = {key: (tuple(leaf.shape), leaf.dtype) for key, leaf in actions.items()}
    assert got == {
        "type": ((6,), torch.int64),
        "arm/steer": ((6, 2), torch.float32),
        "arm/half": ((6, 2), torch.int8),
        "tools": ((6, 2), torch.int64),
    }
    for result in (value, distribution.log_prob(samples), distribution.entropy(), distribution.kl(distribution)):
        assert result.shape == (6,)
    back = distribution.log_prob(distribution.from_env_action(actions))
    torch.testing.assert_close(back, distribution.log_prob(samples))


def test_noise_is_drawn_for_a_whole_rollout():
    policy = build(action_space=ALL_ACTIONS)
    noise = policy.draw_noise((5, 6), torch.Generator().manual_seed(1))
    again = policy.draw_noise((5, 6), torch.Generator().manual_seed(1))
    assert all(leaf.shape[:2] == (5, 6) and leaf.equal(again[key]) for key, leaf in noise.items())
    samples = policy.distribution(observations()).sample({key: leaf[3] for key, leaf in noise.items()})
    assert samples["tools"].shape == (6, 2)


@pytest.mark.parametrize("distribution", ["gaussian", "squashed_gaussian", "beta"])
@pytest.mark.parametrize("critic", ["separate", "shared"])
def test_acting_and_learning_give_the_same_numbers(distribution, critic):
    """The ratio of PPO before the first update is 1, whatever the batch."""
    policy = build(action_space=ALL_ACTIONS, distribution=distribution, critic=critic)
    obs = observations(64)
    with torch.inference_mode():
        samples = act(policy, obs)
        old = policy.distribution(obs).log_prob(samples)
        values = policy.value(obs)
    samples = {key: leaf.clone() for key, leaf in samples.items()}
    new, new_values = policy({key: leaf[10:30] for key, leaf in obs.items()})
    ratio = (new.log_prob({key: leaf[10:30] for key, leaf in samples.items()}) - old[10:30]).exp()
    assert (ratio - 1).abs().max() < 1e-5
    torch.testing.assert_close(new_values, values[10:30].clone())


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "gelu", "silu"])
def test_the_fast_forward_equals_modules_in_sequence(activation):
    mlp = MLP(4, (16, 8), activation)
    function = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU, "gelu": nn.GELU, "silu": nn.SiLU}[activation]()
    reference = nn.Sequential(copy.deepcopy(mlp.layers[0]), function, copy.deepcopy(mlp.layers[1]), function)
    x = torch.randn(5, 4)
    kept = x.clone()
    torch.testing.assert_close(mlp(x), reference(x))
    assert x.equal(kept)
    mlp(x).square().sum().backward()
    reference(x).square().sum().backward()
    for ours, theirs in zip(mlp.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_the_fast_forward_follows_its_parameters():
    policy, obs = build(), observations()
    before = policy.value(obs)
    clone = copy.deepcopy(policy)
    assert clone.value(obs).equal(before)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1)
    changed = policy.value(obs)
    assert not changed.equal(before)
    assert clone.value(obs).equal(before)
    clone.load_state_dict(policy.state_dict())
    assert clone.value(obs).equal(changed)
    fresh = build(seed=5)
    fresh.load_state_dict(policy.state_dict(), assign=True)
    assert fresh.value(obs).equal(changed)
    swapped = torch.func.functional_call(build(seed=6), dict(policy.state_dict()), (obs,))[1]
    assert swapped.equal(changed)


def test_a_state_dict_carries_actions_and_normaliser():
    policy = build(action_space=ALL_ACTIONS, normalize_observations=True)
    policy.normalizer.update({"observation": 3 + 2 * torch.randn(50, 4)})
    other = build(action_space=ALL_ACTIONS, normalize_observations=True, seed=9)
    assert not all(leaf.equal(act(other, observations())[key]) for key, leaf in act(policy, observations()).items())
    other.load_state_dict(policy.state_dict())
    assert all(leaf.equal(act(other, observations())[key]) for key, leaf in act(policy, observations()).items())


def test_parameter_names_are_those_of_the_blocks():
    assert set(build(action_space=ALL_ACTIONS).state_dict()) >= {
        "encoder.trunk.layers.0.weight",
        "critic_encoder.trunk.layers.1.bias",
        "heads.type_head.linear.weight",
        "heads.arm/half_head.linear.bias",
        "heads.arm/steer_head.log_std",
        "value_head.weight",
    }


def test_a_shared_critic_uses_the_policys_layers_and_none_has_no_value():
    shared = build(critic="shared")
    assert shared.critic_encoder is None
    shared.value(observations()).sum().backward()
    assert shared.encoder.trunk.layers[0].weight.grad.abs().sum() > 0
    distribution, value = shared(observations())
    torch.testing.assert_close(value, shared.value(observations()))
    torch.testing.assert_close(distribution.entropy(), shared.distribution(observations()).entropy())
    separate = build(critic="separate")
    separate.value(observations()).sum().backward()
    assert separate.encoder.trunk.layers[0].weight.grad is None
    alone = build(critic="none")
    assert not alone.has_critic
    assert not any("value" in name or "critic" in name for name in alone.state_dict())
    for call in (alone.value, alone):
        with pytest.raises(ConfigError, match="no critic"):
            call(observations())


def test_first_actions_are_nearly_uniform_and_initialisation_can_be_turned_off():
    probabilities = (
        build(action_space=spaces.Discrete(5)).distribution(observations(50)).parts["action"].log_probs.exp()
    )
    assert (probabilities - 0.2).abs().max() < 0.02
    weight = build().encoder.trunk.layers[1].weight.double()
    torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(64, dtype=torch.float64), atol=1e-4, rtol=0)
    weight = build(orthogonal_init=False).encoder.trunk.layers[1].weight.double()
    assert (weight @ weight.T - 2 * torch.eye(64)).abs().max() > 0.5


def test_temperature_divides_logits():
    hot, cold = build(temperature=2.0), build(temperature=1.0)
    obs = observations()
    expected = cold.distribution(obs).parts["action"].logits / 2
    torch.testing.assert_close(hot.distribution(obs).parts["action"].logits, expected)


def test_standard_deviations_start_where_told():
    for dependent in (False, True):
        policy = build(action_space=BOX, log_std_init=-1.0, state_dependent_std=dependent)
        std = policy.distribution(observations()).parts["action"].std
        assert (std.log() + 1).abs().max() < 0.05


@pytest.mark.parametrize("distribution", ["squashed_gaussian", "beta"])
def test_bounded_distributions_refuse_unbounded_actions(distribution):
    unbounded = spaces.Dict({"push": spaces.Box(-np.inf, 1, (2,))})
    with pytest.raises(ConfigError, match=r"model\.distribution.*push"):
        build(action_space=unbounded, distribution=distribution)


MASKED = spaces.Dict({"x": BOX, "action_mask": spaces.MultiBinary(3)})


def masked_obs(mask):
    return {"x": torch.randn(len(mask), 4), "action_mask": torch.tensor(mask, dtype=torch.int8)}


def test_masks_reach_the_heads_but_not_the_encoders():
    policy = build(MASKED, spaces.Discrete(3))
    assert policy.encoder.trunk.in_features == 4
    obs = masked_obs([[1, 0, 1]] * 300)
    assert set(act(policy, obs)["action"].tolist()) == {0, 2}
    samples = act(policy, obs)
    distribution = policy.distribution(obs)
    assert (distribution.parts["action"].log_probs[:, 1].exp() == 0).all()
    (distribution.log_prob(samples) + distribution.entropy()).sum().backward()
    assert all(p.grad.isfinite().all() for p in policy.parameters() if p.grad is not None)


def test_multi_discrete_masks_are_flat_over_all_choices():
    observation_space = spaces.Dict({"x": BOX, "action_mask": spaces.Box(0, 1, (5,), np.int8)})
    policy = build(observation_space, spaces.MultiDiscrete([2, 3]))
    obs = masked_obs([[0, 1, 1, 0, 0], [1, 0, 0, 1, 1]] * 100)
    actions = act(policy, obs)["action"]
    assert actions[::2].unique(dim=0).tolist() == [[1, 0]]
    assert actions[1::2].unique(dim=0).tolist() == [[0, 1], [0, 2]]


def test_bits_may_all_be_forbidden():
    obs = masked_obs([[0, 0, 0], [1, 0, 1]])
    actions = act(build(MASKED, spaces.MultiBinary(3)), obs)["action"]
    assert actions[0].tolist() == [0, 0, 0]


def test_keys_named_like_methods_are_fine():
    observation_space = spaces.Dict({"float": BOX, "train": spaces.Discrete(3)})
    config = TemplateConfig(name="template", normalize_observations=True)
    policy = TemplateModel(config).build_policy(observation_space, spaces.Dict({"eval": spaces.Discrete(2)}), config)
    distribution, _ = policy({"float": torch.randn(2, 4), "train": torch.tensor([0, 2])})
    assert set(distribution.mode()) == {"eval"}


@pytest.mark.parametrize("critic", ["separate", "shared"])
def test_acting_needs_no_parameters_of_the_critic_alone(critic):
    policy = build(MASKED, spaces.Discrete(3), critic=critic)
    needed, obs = acting_arrays(policy), masked_obs([[1, 1, 1]] * 50)
    assert needed.keys() < policy.state_dict().keys()
    before = act(policy, obs)["action"]
    for name, parameter in policy.state_dict().items():
        if name not in needed:
            parameter.fill_(torch.nan)
    assert torch.equal(act(policy, obs)["action"], before)


def test_a_policy_class_of_its_own_may_act_with_every_parameter():
    class ActsWithItsCritic(Policy):
        pass

    encoder = MLP(4, (8,), "tanh")
    policy = ActsWithItsCritic(BOX, TWO, encoder)
    assert acting_arrays(policy).keys() == policy.state_dict().keys()


@pytest.mark.parametrize("value", [nn.ModuleList([nn.Linear(3, 2)]), nn.Linear(3, 2), [], nn.Parameter(torch.ones(2))])
def test_what_a_policy_works_out_cannot_be_set_and_the_error_says_what_to_write(value):
    policy = build()
    with pytest.raises(PluginError, match=r"lists what is in policy.heads. Next: policy.heads\['action_head'\] = …"):
        policy.action_heads = value
    with pytest.raises(PluginError, match=r"^policy.noise cannot be set$"):
        policy.noise = value
    assert "action_heads" not in dict(policy.named_children())
    head = policy.heads["action_head"]
    policy.heads["action_head"] = copy.deepcopy(head)
    assert policy.action_heads[0][2] is not head
