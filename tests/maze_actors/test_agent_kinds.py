"""Agents with different spaces: which leaves their rows have, what has elapsed, and who acts."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from maze_actors.agents import LimitedAgents, Round
from maze_actors.vector_env import AgentsVectorEnv

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.actors import ACTOR, ELAPSED, actors_of
from maze_core.envs.spaces import allocate, space_specs
from tests.agents import Mixed, Script

SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)


def begun(env):
    out = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
    env.reset(SEEDS, out)
    return out


def test_agents_with_equal_spaces_share_leaves_and_others_have_their_own():
    env = AgentsVectorEnv(lambda _: Mixed(), 2)
    actors = actors_of(env.observation_space)
    assert actors.actors == {"one": "one", "two": "two", "late": "one"}
    out = begun(env)
    assert set(out) == {ACTOR, ELAPSED, "one/x", "one/action_mask", "two"}
    assert set(env.action_space.spaces) == {"one", "two"}
    assert out[ACTOR].tolist() == [0, 1, 2, 0, 1, 2]
    rng = np.random.default_rng(1)
    for _ in range(40):
        for row in range(6):
            mine, other = ("two", "one/x") if row % 3 == 1 else ("one/x", "two")
            assert not out[other][row].any()
            assert out["one/action_mask"][row].all() or mine == "one/x"
            assert not out[mine][row].any() or out[mine][row, 0] == row % 3
        discrete = [int(rng.choice(np.flatnonzero(mask))) for mask in out["one/action_mask"]]
        actions = {"one": np.array(discrete), "two": rng.uniform(-1, 1, (6, 2)).astype(np.float32)}
        result = env.step(actions, out)  # the environment checks that each gets an action of its own
        if result.final_obs is not None:
            assert (result.final_obs[ACTOR] == result.final_indices % 3).all()
        assert out[ACTOR].tolist() == [0, 1, 2, 0, 1, 2]


def test_agents_with_equal_spaces_are_told_apart_where_that_is_asked_for():
    turns = [Round({"a": np.ones(1, np.float32)})] * 2
    plain = AgentsVectorEnv(lambda _: Script(turns), 1)
    assert plain.observation_space == spaces.Box(-np.inf, np.inf, (1,), np.float32)
    told = AgentsVectorEnv(lambda _: Script(turns), 1, agent_ids=True)
    assert begun(told)[ACTOR].tolist() == [0, 1]
    assert actors_of(told.observation_space).kinds == ["a"]


def o(value):
    return np.array([value], np.float32)


TURNS = [
    Round({"a": o(1)}),
    Round({"b": o(2)}),
    Round({"b": o(3)}),
    Round({"a": o(4), "b": o(5)}),
    Round({"b": o(6)}, truncated={"a": o(7)}),
    Round({}, {}, {"b": o(8)}),
]


@pytest.mark.parametrize("limited", [False, True])
def test_rounds_are_counted_from_an_agents_own_action(limited):
    def make(_):
        env = Script(TURNS)
        env.elapsed = "round"
        return LimitedAgents(env, 100) if limited else env

    env = AgentsVectorEnv(make, 1)
    out = begun(env)
    seen, ends = [out[ELAPSED].tolist()], []
    for _ in range(5):
        result = env.step({"a": np.zeros(2, np.int64)}, out)
        seen.append(out[ELAPSED].tolist())
        if result.final_obs is not None:
            ends.append((result.final_indices.tolist(), result.final_obs[ELAPSED].tolist()))
    # a acts in rounds 1 and 4, b in 2, 3, 4 and 5; then the next episode begins.
    assert [a for a, _ in seen] == [1, 1, 1, 3, 3, 1]
    assert [b for _, b in seen[2:5]] == [1, 1, 1]
    assert ends == [([0], [1]), ([1], [1])]


def test_turns_count_once_however_long_an_agent_waited():
    env = AgentsVectorEnv(lambda _: Script(TURNS), 1, agent_ids=True)
    out = begun(env)
    for _ in range(4):
        env.step({"a": np.zeros(2, np.int64)}, out)
        assert (out[ELAPSED] == 1).all()


def test_a_name_that_cannot_be_a_leaf_is_refused_where_agents_are_told_apart():
    with pytest.raises(ConfigError, match="the actor's name 'a/b' must be text without"):
        AgentsVectorEnv(lambda _: Script(TURNS, ("a/b", "c")), 1, agent_ids=True)
    AgentsVectorEnv(lambda _: Script(TURNS, ("a/b", "c")), 1).close()


def test_an_observation_of_another_agents_space_is_named():
    class Wrong(Mixed):
        def reset(self, seed):
            super().reset(seed)
            return Round({"two": {"x": np.zeros(2)}})

    class Late(Script):
        def step(self, actions):
            return Round({"b": np.zeros(4, np.float32)})

    env = AgentsVectorEnv(lambda _: Wrong(), 1)
    with pytest.raises(ConfigError, match="at 'two'"):
        begun(env)
    env = AgentsVectorEnv(lambda _: Late(TURNS), 1, agent_ids=True)
    out = begun(env)
    with pytest.raises(RunError, match="returned an observation that does not match the observation space"):
        env.step({"a": np.zeros(2, np.int64)}, out)
