"""What critics alone see of a whole environment of PettingZoo: the leaves, who sees them, and what is refused."""

import numpy as np
import pytest
import torch

pytest.importorskip("pettingzoo")

from gymnasium.spaces.utils import flatdim
from maze_actors.vector_env import AgentsVectorEnv
from maze_pettingzoo.adapters import AgentsInTurn, AgentsTogether
from maze_pettingzoo.source import PettingZooConfig, PettingZooSource

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.spaces import allocate, space_specs
from maze_core.models.memory import separate_rows
from tests.maze_pettingzoo.test_adapters import Lives

OVERRIDES = {"evaluation.n_episodes": 0}

SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)
SPREAD = "mpe2:simple_spread_v3"
TAG = "mpe2:simple_tag_v3"


def stepped(adapter, steps, choices=3):
    """Play one copy at random; yield its rows, the actions of all agent rows, and the step's result (None at first)."""
    env = AgentsVectorEnv(lambda _: adapter, 1)
    out = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
    rng = np.random.default_rng(1)
    env.reset(SEEDS, out)
    yield out, None, None
    for _ in range(steps):
        actions = rng.integers(choices, size=env.num_envs)
        result = env.step({"action": actions}, out)
        yield out, actions, result


def test_together_every_row_has_the_state_and_so_has_the_last_one():
    mpe = pytest.importorskip("mpe2.simple_spread_v3")
    raw = mpe.parallel_env(max_cycles=4)
    raw.reset(seed=SEEDS(0, 0))
    play = stepped(AgentsTogether(mpe.parallel_env(max_cycles=4), critic="state"), 4, choices=5)
    for rows, actions, result in play:
        if actions is not None:
            raw.step({agent: actions[a] for a, agent in enumerate(raw.possible_agents)})
        if result is None or not result.episodes:
            np.testing.assert_array_equal(rows["critic"], np.tile(raw.state(), (3, 1)))
    assert result.truncated.all()
    np.testing.assert_array_equal(result.final_obs["critic"], np.tile(raw.state(), (3, 1)))
    raw.reset(seed=SEEDS(0, 1))
    np.testing.assert_array_equal(rows["critic"], np.tile(raw.state(), (3, 1)))


def test_in_turn_the_row_of_the_agent_that_acts_has_the_state_of_its_turn():
    mpe = pytest.importorskip("mpe2.simple_spread_v3")
    raw = mpe.env(max_cycles=4)
    raw.reset(seed=SEEDS(0, 0))
    seen = set()
    for rows, actions, _ in stepped(AgentsInTurn(mpe.env(max_cycles=4), critic="state"), 8, choices=5):
        if actions is not None:
            raw.step(int(actions[raw.possible_agents.index(raw.agent_selection)]))
        agent_row = raw.possible_agents.index(raw.agent_selection)
        np.testing.assert_array_equal(rows["critic"][agent_row], raw.state())
        seen.add(raw.state().tobytes())
    assert len(seen) > 2


@pytest.mark.parametrize("in_turn", [False, True])
def test_all_shows_what_every_agent_observes_and_zeros_for_those_that_left(in_turn):
    from pettingzoo.utils.conversions import parallel_to_aec

    make = (lambda: parallel_to_aec(Lives("info"))) if in_turn else (lambda: Lives("info"))
    adapter = (AgentsInTurn if in_turn else AgentsTogether)(make(), critic="all")
    raw, ended, checked = make(), set(), 0
    raw.reset(seed=SEEDS(0, 0))
    for rows, actions, result in stepped(adapter, 8):
        if actions is not None:
            ended |= {raw.possible_agents[agent_row] for agent_row in result.final_indices}
            if result.episodes:
                break
            if in_turn:
                raw.step(int(actions[raw.possible_agents.index(raw.agent_selection)]))
                while raw.terminations[raw.agent_selection] or raw.truncations[raw.agent_selection]:
                    raw.step(None)
                observed = {agent: raw.observe(agent) for agent in raw.agents}
            else:
                observed = raw.step({agent: actions[raw.possible_agents.index(agent)] for agent in raw.agents})[0]
            agent_rows = np.flatnonzero(result.acting)
            for agent in raw.possible_agents:
                leaf = rows[f"critic/{agent}"][agent_rows]
                gone = agent in ended and agent not in {raw.possible_agents[a] for a in result.final_indices}
                assert (leaf == 0).all() if gone else (leaf == observed.get(agent, leaf[0])).all()
                checked += 1
    assert checked > 4
    assert ended


def test_a_cut_episode_ends_with_what_all_saw_in_its_last_moment():
    """Zeros there would be a wrong bootstrap."""
    mpe = pytest.importorskip("mpe2.simple_spread_v3")
    for adapter in (AgentsTogether(mpe.parallel_env(max_cycles=2), critic="all"),
                    AgentsInTurn(mpe.env(max_cycles=2), critic="all")):  # fmt: skip
        *_, (_, _, result) = stepped(adapter, 6 if isinstance(adapter, AgentsInTurn) else 2, choices=5)
        last = result.final_obs
        for agent_row, agent in enumerate(("agent_0", "agent_1", "agent_2")):
            own = np.flatnonzero(result.final_indices == agent_row)
            np.testing.assert_array_equal(last[f"critic/{agent}"][own], last["observation"][own])
            assert (last[f"critic/{agent}"] != 0).any(1).all()


@pytest.mark.parametrize(
    ("env_id", "critic", "overrides"),
    [
        (SPREAD, "all", {"model.normalize_observations": True, "model.memory": "gru"}),
        (TAG, "state", {}),
    ],
)
def test_the_critic_sees_them_and_the_policy_does_not(quick, env_id, critic, overrides):
    pytest.importorskip("mpe2")
    env = {"name": "pettingzoo", "id": env_id, "critic": critic, "kwargs": {"max_cycles": 5}}
    context = quick(env, "ppo", {"model.hidden": [8], "algorithm.n_rollout_steps": 6, **overrides})
    context.train()
    policy, space = context.run.policy, context.run.policy.observation_space
    torch.manual_seed(0)
    obs = {key: torch.from_numpy(leaf) for key, leaf in allocate(space_specs(space, "observation"), (4,)).items()}
    assert sum(leaf[0].numel() for key, leaf in obs.items() if key.startswith("critic")) == flatdim(space["critic"])
    other = {key: torch.randn_like(leaf) if key.startswith("critic") else leaf for key, leaf in obs.items()}
    sequences = separate_rows(policy, 4)
    with torch.no_grad():
        (before, values), (after, others) = policy(obs, sequences), policy(other, sequences)
    mode = before.mode()
    assert torch.equal(before.log_prob(mode), after.log_prob(mode))
    assert not torch.equal(values, others)


@pytest.mark.parametrize(
    "algorithm", ["sac", *(pytest.param(each, marks=pytest.mark.slow) for each in ("a2c", "impala"))]
)
def test_algorithms_learn_with_a_centralised_critic(quick, algorithm):
    pytest.importorskip("mpe2")
    env = {"name": "pettingzoo", "id": TAG, "critic": "state", "kwargs": {"max_cycles": 5}}
    off = {"algorithm.initial_buffer_size": 40, "algorithm.replay_buffer_size": 400, "algorithm.batch_size": 8}
    overrides = {"model.hidden": [8], **(off if algorithm == "sac" else {"algorithm.n_rollout_steps": 6})}
    context = quick(env, algorithm, overrides)
    context.train()
    assert "critic" in context.run.policy.observation_space.spaces


@pytest.mark.parametrize("env_id", ["pettingzoo.classic:connect_four_v3", "pettingzoo.classic:rps_v2"])
def test_an_environment_without_a_state_says_what_to_set(env_id):
    config = PettingZooConfig(name="pettingzoo", id=env_id, critic="state")
    with pytest.raises(ConfigError, match=r"env\.critic: .* has no state\nNext: --set env\.critic=all"):
        PettingZooSource(config).make_agents_env(config, 0, 0)


@pytest.mark.slow
def test_a_resumed_run_with_memory_equals_the_uninterrupted_one(quick, whole_state, assert_same):
    pytest.importorskip("mpe2")
    env = {"name": "pettingzoo", "id": SPREAD, "critic": "all", "api": "aec", "kwargs": {"max_cycles": 4}}
    more = {"model.hidden": [8], "model.memory": "gru", "model.normalize_observations": True}
    more |= {"algorithm.n_rollout_steps": 5, "model.memory_size": 4}
    whole = quick(env, "ppo", more | {"algorithm.n_epochs": 3})
    whole.train()
    half = quick(env, "ppo", more)
    half.train()
    quick(env, "ppo", more | {"algorithm.n_epochs": 3}, run_dir=None).resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))
