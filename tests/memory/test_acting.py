"""Agents with memory: forgetting where episodes begin, saving and restoring."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_core.base.errors import ConfigError
from maze_core.collect.agents.network import NetworkAgent, SharedNoise
from maze_core.collect.agents.single import SingleAgent, compute_action
from maze_core.models.mlp import MlpConfig, MlpModel

SPACE, ROWS = spaces.Box(-1, 1, (3,)), 4


def policy_of(kind, layers=1, actions=None, **more):
    torch.manual_seed(0)
    config = MlpConfig(name="mlp", memory=kind, memory_size=8, memory_layers=layers, hidden=(6,), **more)
    return MlpModel(config).build_policy(SPACE, actions or spaces.Discrete(3), config).eval()


def observed(steps, rows=ROWS):
    return np.random.default_rng(1).uniform(-1, 1, (steps, rows, 3)).astype(np.float32)


@pytest.mark.parametrize("kind", ["gru", "lstm", "window"])
@pytest.mark.parametrize("fast", [None, ROWS])
def test_an_agent_goes_on_from_its_state_and_forgets_at_beginnings(kind, fast):
    policy = policy_of(kind, actions=spaces.Box(-2, 2, (2,)))
    obs = observed(12)

    def agent():
        return NetworkAgent(policy, SharedNoise(ROWS, torch.Generator().manual_seed(3)), fast_rows=fast)

    def act(each, t):
        if t == 8:
            each.begin([2])
        return each.act({"observation": obs[t]}).actions["action"].copy()

    whole, first, second = agent(), agent(), agent()
    expected = [act(whole, t) for t in range(12)]
    for t in range(6):
        act(first, t)
    second.load_state(first.state())
    for t in range(6, 12):
        np.testing.assert_array_equal(act(second, t), expected[t])
    # A row that begins acts as a new agent does, whatever the other rows remember.
    for row, same in ((2, True), (1, False)):
        alone = NetworkAgent(policy, None)
        before = NetworkAgent(policy, None)
        for t in range(8):
            before.act({"observation": obs[t]})
        before.begin([2])
        fresh = alone.act({"observation": obs[8]}).actions["action"][row]
        assert np.allclose(before.act({"observation": obs[8]}).actions["action"][row], fresh) == same


def test_one_observation_alone_does_not_decide():
    policy = policy_of("gru", log_std_init=-20)
    with pytest.raises(ConfigError, match="in order"):
        compute_action(policy, np.zeros(3, np.float32))
    agent = SingleAgent(policy_of("gru", actions=spaces.Box(-2, 2, (2,))))
    obs = observed(5, 1)[:, 0]
    agent.reset()
    first = [agent.act(each) for each in obs]
    changed = agent.act(obs[0])
    agent.reset()
    assert not np.allclose(changed, first[0])
    np.testing.assert_array_equal([agent.act(each) for each in obs], first)
