"""Agents and the stepper: who is told of which episode, where observations go, and what a restored state gives."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import CountingEnv, SeededWalk
from maze_recordings.noise_by_row import NoiseByRow

from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.collect.agents import network
from maze_core.collect.agents.agent import Agent, Choice
from maze_core.collect.agents.forward import fastest_forward
from maze_core.collect.agents.network import NetworkAgent, SharedNoise
from maze_core.collect.agents.rule import RuleAgent
from maze_core.collect.agents.single import compute_action
from maze_core.collect.policies.base import ActingPolicy
from maze_core.collect.stepper import Stepper
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.models.blocks import Dense
from maze_core.models.mlp import MlpConfig, MlpModel
from maze_core.plugins.config.base import PluginConfig

ROWS = 3
VECTOR = spaces.Box(-np.inf, np.inf, (5,), np.float32)
BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 5], np.float32))


def policy_of(observation_space, action_space, **settings):
    config = MlpConfig(name="mlp", **settings)
    torch.manual_seed(1)
    return MlpModel(config).build_policy(observation_space, action_space, config)


def rngs(rows=ROWS, seed=0):
    return [np.random.default_rng([seed, row]) for row in range(rows)]


def observations(seed=0):
    return {"observation": np.random.default_rng(seed).normal(size=(ROWS, 5)).astype(np.float32)}


class Counting(Agent):
    """Acts by the number of its steps since `begin`, and insists on being told of each episode before it acts in it."""

    def __init__(self, rows=ROWS):
        self.acted = np.full(rows, -1)
        self.told = []

    def begin(self, rows):
        self.told.append(list(rows))
        self.acted[list(rows)] = 0

    def act(self, obs):
        np.testing.assert_array_equal(obs["observation"][:, 2], self.acted)
        self.acted += 1
        actions = {"action": self.acted % 3}
        return Choice(actions, actions)


class Keeping:
    """A sink that keeps every transition, in two trees of arrays in turn."""

    def __init__(self, env):
        self.obs, self._spare = (allocate(space_specs(env.observation_space, "observation"), (ROWS,)) for _ in range(2))
        self.kept = []

    def next_buffer(self, obs):
        assert obs is self.obs
        return self._spare

    def add(self, obs, choice, result, following):
        assert obs is self.obs
        assert following is self._spare
        self.obs, self._spare = following, obs
        kept = (obs, choice.actions, following)
        self.kept.append([{k: v.copy() for k, v in tree.items()} for tree in kept] + [result.reward.copy()])


def stepping(env, lengths=()):
    stepper, sink = Stepper(env, EpisodeSeeds(1, Purpose.TRAIN_EPISODES)), Keeping(env)
    return stepper, sink


def test_an_agent_is_told_of_every_episode_before_it_acts_in_it():
    lengths = (1, 2, 4)
    env = SerialVectorEnv(lambda i: CountingEnv(lengths[i], tag=i), ROWS)
    stepper, sink = stepping(env)
    assert not stepper.started
    with pytest.raises(RuntimeError, match="not been reset"):
        stepper.step(Counting(), sink)
    agent = Counting()
    stepper.reset(sink.obs)
    for _ in range(8):
        stepper.step(agent, sink)
    assert agent.told == [[0, 1, 2], [0], [0, 1], [0], [0, 1, 2], [0], [0, 1], [0]]
    for before, after in zip(sink.kept, sink.kept[1:], strict=False):
        np.testing.assert_array_equal(before[2]["observation"], after[0]["observation"])


def test_another_agent_goes_on_in_the_middle():
    """What was not told to the first is told to the second."""
    env = SerialVectorEnv(lambda i: CountingEnv(2, tag=i), ROWS)
    stepper, sink = stepping(env)
    stepper.reset(sink.obs)
    first, second = Counting(), Counting()
    stepper.step(first, sink)
    stepper.step(first, sink)
    stepper.step(second, sink)
    assert (first.told, second.told) == ([[0, 1, 2]], [[0, 1, 2]])


@pytest.mark.parametrize("steps", [0, 1, 7, 40])
def test_a_restored_stepper_goes_on_bit_for_bit(steps):
    def playing():
        env = SerialVectorEnv(lambda i: SeededWalk(), ROWS)
        policy = policy_of(env.observation_space, env.action_space)
        noise = SharedNoise(ROWS, torch.Generator().manual_seed(3))
        return NetworkAgent(policy, noise), *stepping(env)

    agent, stepper, sink = playing()
    if steps:
        stepper.reset(sink.obs)
    for _ in range(steps):
        stepper.step(agent, sink)
    state = {**agent.state(), **stepper.state()}
    again, other, others_sink = playing()
    again.load_state(state)
    other.restore(state, others_sink.obs)
    assert other.started == bool(steps)
    for each, s in ((stepper, sink), (other, others_sink)):
        if not each.started:
            each.reset(s.obs)
    for _ in range(30):
        stepper.step(agent, sink)
        other.step(again, others_sink)
    for mine, theirs in zip(sink.kept[steps:], others_sink.kept, strict=True):
        for ours, other_tree in zip(mine[:3], theirs[:3], strict=True):
            assert all((ours[key] == other_tree[key]).all() for key in ours)
        np.testing.assert_array_equal(mine[3], theirs[3])


def test_noise_ahead_is_that_of_step_by_step():
    policy = policy_of(VECTOR, BOX)
    ahead, single = (NetworkAgent(policy, SharedNoise(ROWS, torch.Generator().manual_seed(5))) for _ in range(2))
    ahead.expect(1)
    for number in range(4):
        mine, theirs = ahead.act(observations(number)), single.act(observations(number))
        np.testing.assert_array_equal(mine.actions["action"], theirs.actions["action"])
        ahead.expect(1)


def test_noise_by_row_does_not_depend_on_the_other_rows():
    policy = policy_of(VECTOR, BOX)
    obs = observations()
    together = NetworkAgent(policy, NoiseByRow(rngs())).act(obs)
    for row in range(ROWS):
        alone = NetworkAgent(policy, NoiseByRow([rngs()[row]])).act({"observation": obs["observation"][row : row + 1]})
        np.testing.assert_allclose(alone.samples["action"][0], together.samples["action"][row], rtol=1e-5, atol=1e-6)


def test_without_noise_the_most_likely_action():
    policy = policy_of(VECTOR, spaces.Discrete(4))
    obs = observations()
    with torch.no_grad():
        logits = policy.distribution({"observation": torch.from_numpy(obs["observation"])}).parts["action"].logits
    chosen = NetworkAgent(policy, None, fast_rows=ROWS).act(obs)
    np.testing.assert_array_equal(chosen.actions["action"], logits.argmax(-1).numpy())
    assert [compute_action(policy, row) for row in obs["observation"]] == chosen.actions["action"].tolist()


def _replace_layer(policy, layer=Dense):
    torch.manual_seed(9)
    policy.encoder.trunk.layers[0] = layer(5, 64)


def _replace_trunk(policy):
    torch.manual_seed(9)
    policy.encoder.trunk = torch.nn.Sequential(torch.nn.Linear(5, 64), torch.nn.ReLU())


class Opposite(Dense):
    def forward(self, features):
        return super().forward(features).neg()


def _replace_by(module, forward):
    """Set a method on an object, as a plugin may do that wants to change what a part computes."""
    was = module.forward
    module.forward = lambda *args: forward(was(*args))


def head(policy):
    return policy.action_heads[0][2]


def _replace_data(policy):
    for parameter in policy.parameters():
        parameter.data = parameter.data * 3 + 1


CHANGES = {
    "values": lambda policy: [p.mul_(3).add_(1) for p in policy.parameters()],  # in place: nothing to notice
    "data": _replace_data,
    "parameter": lambda policy: setattr(head(policy).linear, "bias", torch.nn.Parameter(torch.arange(4.0))),
    "layer": _replace_layer,
    "layer of torch": lambda policy: _replace_layer(policy, torch.nn.Linear),
    "layer of its own": lambda policy: _replace_layer(policy, Opposite),
    "trunk": _replace_trunk,
    "activation": lambda policy: setattr(policy.encoder.trunk, "activation", "relu"),
    "method of a trunk": lambda policy: _replace_by(policy.encoder.trunk, torch.neg),
    "method of a layer": lambda policy: _replace_by(policy.encoder.trunk.layers[0], torch.neg),
    "method of the inputs": lambda policy: _replace_by(policy.encoder.input, lambda rows: rows * 9 + 1),
    "head's layer": lambda policy: setattr(head(policy), "linear", Opposite(64, 4)),
    "temperature": lambda policy: setattr(head(policy), "inverse_temperature", 50.0),
    "normalizer": lambda policy: setattr(policy, "normalizer", None),
    "statistics": lambda policy: policy.normalizer.update({"observation": 100 + 9 * torch.rand(50, 5)}),
    "buffer": lambda policy: setattr(policy.normalizer, "observation_shift", torch.full((5,), 2.0)),
    "hook": lambda policy: policy.encoder.register_forward_hook(lambda *args: args[-1].neg()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_fast_way_sees_what_has_changed(change):
    policy = policy_of(VECTOR, spaces.Discrete(4), normalize_observations=True, activation="tanh")
    policy.normalizer.update({"observation": torch.randn(50, 5)})
    with torch.no_grad():
        head(policy).linear.weight.mul_(300)  # at first all choices are about as likely
    fast, slow = (NetworkAgent(policy, SharedNoise(ROWS, torch.Generator()), fast_rows=rows) for rows in (ROWS, None))
    before = [fast.act(observations(n)).actions["action"].tolist() for n in range(20)]
    fast.refresh()
    with torch.no_grad():
        CHANGES[change](policy)
    for agent in (fast, slow):
        agent.refresh()
        agent.load_state({"noise": torch.Generator().get_state()})
    after = [[agent.act(observations(n)).actions["action"].tolist() for n in range(20)] for agent in (fast, slow)]
    assert after[0] == after[1]
    assert after[0] != before


def test_nothing_is_built_anew_where_nothing_has_changed(monkeypatch):
    policy, built = policy_of(VECTOR, spaces.Discrete(4)), []

    def build(*arguments, **options):
        built.append(fastest_forward(*arguments, **options))
        return built[-1]

    monkeypatch.setattr(network, "fastest_forward", build)
    agent = NetworkAgent(policy, SharedNoise(ROWS, torch.Generator()), fast_rows=ROWS)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(1)
    agent.refresh()
    assert len(built) == 1
    policy.encoder.register_forward_hook(lambda *_: None)
    agent.refresh()
    assert len(built) == 2


def test_the_fast_way_is_left_where_a_module_gets_a_hook():
    policy = policy_of(VECTOR, spaces.Discrete(4))
    agent = NetworkAgent(policy, SharedNoise(ROWS, torch.Generator()), fast_rows=ROWS)
    seen = []
    policy.encoder.register_forward_hook(lambda *_: seen.append(1))
    agent.act(observations())
    assert not seen
    agent.refresh()
    agent.act(observations())
    assert seen


class Far(ActingPolicy):
    """Beyond the bounds, and remembers who began."""

    def setup(self, observation_space, action_space):
        self.began = []

    def begin(self, row):
        self.began.append(row)

    def act(self, obs, rngs):
        self.asked = np.array([[rng.normal() + 9, -9] for rng in rngs], np.float32)
        return {"action": self.asked}

    def state(self):
        return {"began": list(self.began)}

    def load_state(self, state):
        self.began = list(state["began"])


def test_a_rule_acts_within_the_bounds_and_goes_on_where_it_was():
    policy = Far(PluginConfig())
    policy.setup(VECTOR, BOX)
    agent = RuleAgent(policy, rngs(), BOX)
    agent.begin([0, 2])
    assert agent.act(observations()).actions["action"].tolist() == [[2, 0]] * ROWS
    state = agent.state()
    agent.act(observations())
    other = Far(PluginConfig())
    other.setup(VECTOR, BOX)
    again = RuleAgent(other, rngs(seed=9), BOX)
    again.load_state(state)
    assert other.began == [0, 2]
    again.act(observations())
    np.testing.assert_array_equal(other.asked, policy.asked)
