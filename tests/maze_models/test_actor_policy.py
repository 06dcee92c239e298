"""The policy of several actors equals its groups' policies on their rows, and shows each nothing else."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.turns import Carousel, Shelves
from maze_models.several.actor_policy import ActorPolicy
from maze_models.template import TemplateConfig, TemplateModel
from torch import nn

from maze_core.base.errors import ConfigError
from maze_core.envs.actors import actors_of
from maze_core.envs.spaces import allocate, space_specs
from maze_core.models.building import batchable, build_policy, probe
from maze_core.models.mlp import MlpConfig, MlpModel

GROUPS = {
    "shared": "shared",
    "per_actor": "per_actor",
    "explicit": {"boss": ["choose"], "hands": ["right", "left"]},
}


def build(env, model=MlpModel, config=MlpConfig, seed=0, **more):
    torch.manual_seed(seed)
    settings = config(name="m", orthogonal_init=False, **more)
    plugin = model(settings)
    return build_policy(plugin.build_policy, env.observation_space, env.action_space, settings)


def rows(env, count=40, seed=3):
    """Observations of random steps, leaves [B, …]."""
    env.action_space.seed(seed)
    seen = [env.reset(seed=seed)[0]]
    while len(seen) < count:
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        seen.append(env.reset()[0] if terminated or truncated else observation)
    from maze_core.envs.codecs import ObservationCodec

    codec = ObservationCodec(env.observation_space)
    out = allocate(codec.specs, (count,))
    for i, observation in enumerate(seen):
        codec.write(out, i, observation)
    return {key: torch.from_numpy(leaf) for key, leaf in out.items()}


def noise_of(policy, obs):
    return policy.draw_noise((len(obs["turn/actor"]),), torch.Generator().manual_seed(1))


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize(("model", "config"), [(MlpModel, MlpConfig), (TemplateModel, TemplateConfig)])
def test_each_row_is_decided_by_the_policy_of_its_actor(groups, model, config):
    env = Carousel()
    policy, obs = build(env, model, config, groups=GROUPS[groups]), rows(env)
    names = actors_of(env.observation_space).names
    distribution, value = policy(obs)
    noise = noise_of(policy, obs)
    samples, mode = distribution.sample(noise), distribution.mode()
    actions = distribution.env_action(samples)
    assert set(obs["turn/actor"].tolist()) == {0, 1, 2}
    torch.testing.assert_close(value, policy.value(obs))
    for row in range(len(value)):
        actor = int(obs["turn/actor"][row])
        (number,) = [i for i, group in enumerate(policy.groups) if actor in group.actors]
        group, single = policy.groups[number], policy.policies[f"{policy.groups[number].name}_policy"]
        kind = "choose" if names[actor] == "choose" else "left"
        seen = {k.removeprefix(f"{kind}/"): v[row : row + 1] for k, v in obs.items() if k.startswith(f"{kind}/")}
        seen["critic/position"] = obs["critic/position"][row : row + 1]
        if len(group.actors) > 1:
            seen["actor_id"] = torch.tensor([group.actors.index(actor)])
        alone, its_value = single(seen)
        mine = {k.removeprefix(f"{kind}/"): v[row : row + 1] for k, v in samples.items() if k.startswith(f"{kind}/")}
        its_noise = {k.removeprefix(f"{kind}/"): v[row : row + 1] for k, v in noise.items() if k.startswith(f"{kind}/")}
        close = {"rtol": 1e-5, "atol": 1e-5}
        torch.testing.assert_close(alone.sample(its_noise), mine, **close)
        for found, wanted in [
            (distribution.log_prob(samples), alone.log_prob(mine)),
            (distribution.entropy(), alone.entropy()),
            (value, its_value),
        ]:
            torch.testing.assert_close(found[row : row + 1], wanted, **close)
        for tree in (samples, actions, mode):
            waiting = [leaf[row] for key, leaf in tree.items() if not key.startswith(f"{kind}/")]
            assert waiting
            assert all((leaf == 0).all() for leaf in waiting)
    torch.testing.assert_close(distribution.kl(distribution), torch.zeros(len(value)))
    again = distribution.from_env_action(actions)
    torch.testing.assert_close(distribution.log_prob(again), distribution.log_prob(samples), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("groups", GROUPS)
def test_working_on_all_rows_and_selecting_gives_the_same(groups):
    env = Carousel()
    policy, obs = build(env, groups=GROUPS[groups]), rows(env)
    dense = batchable(policy)
    assert not policy.dense
    noise = noise_of(policy, obs)
    for one, two in zip(policy(obs), dense(obs), strict=True):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(one, two)
        else:
            torch.testing.assert_close(one.sample(noise), two.sample(noise))
            torch.testing.assert_close(one.log_prob(one.sample(noise)), two.log_prob(one.sample(noise)))


def test_batches_without_some_or_all_actors():
    env = Carousel()
    policy, obs = build(env), rows(env)
    whole = policy.distribution(obs)
    samples = whole.sample(noise_of(policy, obs))
    for chosen in (obs["turn/actor"] == 0, obs["turn/actor"] == 2, torch.zeros(len(obs["turn/actor"])).bool()):
        some = policy.distribution({key: leaf[chosen] for key, leaf in obs.items()})
        mine = {key: leaf[chosen] for key, leaf in samples.items()}
        torch.testing.assert_close(some.log_prob(mine), whole.log_prob(samples)[chosen])
        modes, wanted = some.mode(), {key: leaf[chosen] for key, leaf in whole.mode().items()}
        assert {k: (v.shape, v.dtype) for k, v in modes.items()} == {k: (v.shape, v.dtype) for k, v in wanted.items()}


def test_masks_of_waiting_actors_are_never_evaluated():
    """Masks of NaN would spoil every sum; those of waiting actors are not looked at."""
    env = Shelves()
    policy, obs = build(env), rows(env)
    waits = obs["turn/actor"] != 0
    spoiled = {**obs, "pick/action_mask": obs["pick/action_mask"].float()}
    spoiled["pick/action_mask"][waits] = float("nan")
    spoiled["pick/guest"] = torch.where(waits.unsqueeze(-1), float("nan"), obs["pick/guest"])
    spoiled["place/guest"] = torch.where(waits.unsqueeze(-1), obs["place/guest"], float("nan"))
    seen = []
    (group,) = [each for each in policy.policies.values() if each.action_heads[0][1] is not None]
    group.heads["action_head"].register_forward_pre_hook(lambda module, inputs: None)
    original = group.action_heads[0][2].forward
    group.action_heads[0][2].forward = lambda features, mask: seen.append(mask) or original(features, mask)
    one, two = policy(obs), policy(spoiled)
    samples = one[0].mode()
    torch.testing.assert_close(one[0].log_prob(samples), two[0].log_prob(samples))
    torch.testing.assert_close(one[1], two[1])
    total = two[0].log_prob(samples).sum() + two[0].entropy().sum() + two[1].sum()
    total.backward()
    assert all(torch.isfinite(p.grad).all() for p in policy.parameters() if p.grad is not None)
    assert all(len(mask) == int((~waits).sum()) and not mask.isnan().any() for mask in seen)


@pytest.mark.parametrize("groups", GROUPS)
def test_normalisers_see_the_rows_of_their_own_actors_only(groups):
    env = Carousel()
    policy, obs = build(env, groups=GROUPS[groups], normalize_observations=True), rows(env)
    valid = torch.arange(len(obs["turn/actor"])) % 5 != 0
    policy.normalizer.update({key: leaf.reshape(8, 5, *leaf.shape[1:]) for key, leaf in obs.items()}, valid)
    policy.normalizer.update({key: leaf[:0] for key, leaf in obs.items()})
    for group in policy.groups:
        mine = torch.isin(obs["turn/actor"], torch.tensor(group.actors)) & valid
        normalizer = policy.policies[f"{group.name}_policy"].normalizer
        assert int(normalizer.count) == int(mine.sum()) > 0
        for key, (mean, _) in normalizer.statistics().items():
            full = key if key.startswith("critic/") else f"{group.kind}/{key}"
            torch.testing.assert_close(mean, obs[full][mine].double().mean(0))
    assert float(next(n for g in policy.groups if g.kind == "left" for n in
                      [policy.policies[f"{g.name}_policy"].normalizer.statistics()["level"][0].min()])) > 5  # fmt: skip
    copied = copy.deepcopy(policy.normalizer)
    for buffer in copied.buffers():
        buffer.zero_()
    copied.update(obs)
    before = int(policy.normalizer.count)
    policy.normalizer.merge(copied.state_dict())
    assert int(policy.normalizer.count) == before + len(valid)
    assert len(policy.state_dict()) == len(set(policy.state_dict()))
    assert not any(key.startswith("normalizer") for key in policy.state_dict())


def test_critics_alone_see_what_is_for_them():
    env = Carousel()
    policy, obs = build(env), rows(env)
    other = {**obs, "critic/position": obs["critic/position"] + 1}
    samples = policy.distribution(obs).mode()
    torch.testing.assert_close(
        policy.distribution(obs).log_prob(samples), policy.distribution(other).log_prob(samples), rtol=0, atol=0
    )
    assert (policy.value(obs) != policy.value(other)).all()
    with pytest.raises(ConfigError, match=r"model.critic: the observation 'critic/position' is for critics alone"):
        build(env, critic="shared")


class Noisy(nn.Module):
    """An encoder of any leaves, which keeps the names of those it was asked for."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.keys = sorted(space_specs(observation_space, "observation"))
        self.out_features = 4
        self.layer = nn.LazyLinear(4)

    def forward(self, obs):
        return self.layer(torch.cat([obs[key].reshape(len(obs[key]), -1).float() for key in self.keys], -1))


def test_custom_encoders_are_built_for_each_group():
    from maze_models.custom import CustomConfig, wrap_module

    env = Carousel()
    settings = CustomConfig(name="custom", orthogonal_init=False)
    policy = build_policy(lambda *each: wrap_module(Noisy, *each), env.observation_space, env.action_space, settings)
    keys = {name: (each.encoder.keys, each.critic_encoder.keys) for name, each in policy.policies.items()}
    assert keys == {
        "choose_policy": (["at", "turns_mask"], ["at", "critic/position", "turns_mask"]),
        "left_policy": (["actor_id", "level"], ["actor_id", "critic/position", "level"]),
    }
    assert torch.isfinite(policy.value(rows(env))).all()


def test_an_actor_may_be_encoded_where_networks_are_shared():
    env = Carousel()
    inputs = [build(env, actor_one_hot=on).policies["left_policy"].encoder.input.out_features for on in (True, False)]
    assert inputs == [4, 2]
    assert build(env, groups="per_actor").policies["left_policy"].encoder.input.out_features == 2


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"a": ["choose"], "b": ["left"]}, "the actor 'right' has no group"),
        ({"a": ["choose"], "b": ["left", "right"], "c": []}, "the group 'c' names no actor"),
        ({"a": ["choose", "up"], "b": ["left", "right"]}, "the group 'a' names the unknown actor 'up'"),
        ({"a": ["choose", "left"], "b": ["right"]}, "'choose' and 'left' of the group 'a' have different spaces"),
        ({"a": ["choose"], "b": ["left", "right"], "c": ["left"]}, "the actor 'left' is in two groups, 'b' and 'c'"),
        ({"a": ["choose"], "b": ["left", "left", "right"]}, "the actor 'left' is in two groups"),
        ({"a.b": ["choose"], "b": ["left", "right"]}, "the group's name 'a.b' must be text"),
    ],
)
def test_groups_that_do_not_fit_the_actors_are_refused(groups, message):
    with pytest.raises(ConfigError, match=f"model.groups: .*{message}"):
        build(Carousel(), groups=groups)


@pytest.mark.parametrize("setting", [{"groups": "per_actor"}, {"joint_critic": True}, {"actor_one_hot": False}])
def test_settings_of_actors_are_refused_where_there_are_none(setting):
    class Plain:
        observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

    with pytest.raises(ConfigError, match=f"model.{next(iter(setting))}: is for environments with several actors"):
        build(Plain(), **setting)
    assert not isinstance(build(Plain()), ActorPolicy)


def test_a_refused_model_says_whose_spaces_it_refused():
    from maze_models.cnn import CnnConfig, CnnModel

    with pytest.raises(ConfigError, match=r"takes one image[\s\S]*group 'choose'"):
        build(Carousel(), CnnModel, CnnConfig)


def test_a_probe_has_a_row_for_each_actor():
    assert probe(Carousel().observation_space, 2)["turn/actor"].tolist() == [0, 1, 2]
    assert probe(spaces.Box(-1, 1, (2,)), 2)["observation"].shape == (2, 2)
    assert np.issubdtype(probe(Shelves().observation_space, 5)["turn/actor"].dtype, np.int64)


def test_one_critic_for_all_actors():
    env = Carousel()
    policy, obs = build(env, joint_critic=True, groups="per_actor"), rows(env)
    assert policy.has_critic
    assert not any(each.has_critic for each in policy.policies.values())
    keys = policy.joint_critic.encoder.input.keys
    assert set(keys) == {"turn/actor", "turn/elapsed", "choose/at", "left/level", "critic/position"}
    value = policy.value(obs)
    torch.testing.assert_close(policy(obs)[1], value)
    chooses = obs["turn/actor"] == 0
    other = {**obs, "left/level": torch.where(chooses.unsqueeze(-1), float("nan"), obs["left/level"])}
    torch.testing.assert_close(policy.value(other), value)  # what a waiting kind holds is not looked at
    spoiled = {**obs, "left/level": obs["left/level"] + 0.5}
    assert ((policy.value(spoiled) != value) == ~chooses).all()


def test_normalisers_of_one_critic_for_all_see_acting_rows_only():
    env = Carousel()
    policy, obs = build(env, joint_critic=True, normalize_observations=True), rows(env)
    policy.normalizer.update(obs)
    acting = obs["turn/actor"]
    for group, normalizer in zip(policy.joint_critic.groups, policy.joint_critic.normalizers, strict=True):
        mine = torch.isin(acting, torch.tensor(group.actors))
        assert int(normalizer.count) == int(mine.sum())
        for key, (mean, _) in normalizer.statistics().items():
            torch.testing.assert_close(mean, obs[key][mine].double().mean(0))
    assert [group.name for group in policy.joint_critic.groups] == ["choose", "left", "critic"]
    saved = policy.state_dict()
    again = build(env, joint_critic=True, normalize_observations=True, seed=5)
    again.load_state_dict(saved)
    torch.testing.assert_close(again.value(obs), policy.value(obs))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"critic": "shared"}, "for critics alone|has layers of its own"), ({"memory": "gru"}, "has no memory")],
)
def test_one_critic_for_all_is_refused_where_it_cannot_be(settings, message):
    with pytest.raises(ConfigError, match=message):
        build(Carousel(), joint_critic=True, **settings)
    with pytest.raises(ConfigError, match=message if "memory" in settings else "has layers of its own"):
        build(Shelves(), joint_critic=True, **settings)
    assert not build(Shelves(), joint_critic=True, critic="none").has_critic


def test_without_this_distribution_its_name_is_said(monkeypatch):
    monkeypatch.setenv("MAZE_DISABLE_PLUGINS", "maze-models")
    with pytest.raises(ConfigError, match="a policy of several actors needs maze-models, which is not installed"):
        build(Carousel())
