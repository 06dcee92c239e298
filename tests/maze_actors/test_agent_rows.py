"""Environments with several agents as rows: who acts, what waits, which rewards and flags arrive, and resuming."""

from __future__ import annotations

import warnings
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from gymnasium import spaces
from maze_actors.agents import LimitedAgents, Round
from maze_actors.vector_env import AgentsVectorEnv

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.collect.policies.random import RandomPolicy
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.spaces import allocate, space_specs
from tests.agents import Crowd, CrowdConfig, CrowdSource, Script
from tests.process_envs import process_envs

SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)
BUILDER = EnvBuilder(CrowdConfig().bound_to(CrowdSource))


def o(value):
    return np.array([value], np.float32)


def begun(turns, copies=1, **more):
    env = AgentsVectorEnv(lambda _: Script(turns, **more), copies)
    out = rows_of(env)
    env.reset(SEEDS, out)
    return env, out


def rows_of(env):
    return allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))


def act(env, out, *actions):
    return env.step({"action": np.array(actions)}, out)


GAME = [
    Round({"a": o(1)}),
    Round({"b": o(2)}, {"a": 0.5}),
    Round({"a": o(3)}, {"b": 0.25}),
    Round({}, {"a": 1.0, "b": -1.0}, {"a": o(5), "b": o(6)}),
]


def test_agents_in_turn_have_a_row_each_and_only_the_one_that_acts_is_valid():
    env, out = begun(GAME)
    assert env.num_envs == 2
    assert env.agents == ("a", "b")
    np.testing.assert_array_equal(out["observation"], [[1], [0]])  # b waits: nothing yet
    first = act(env, out, 1, 0)
    assert first.valid.tolist() == [True, False]
    assert first.acting.tolist() == [False, True]
    assert first.reward.tolist() == [0.5, 0]
    assert first.steps == 1
    assert first.begun == []
    np.testing.assert_array_equal(out["observation"], [[1], [2]])
    act(env, out, 0, 1)
    assert env.envs[0].asked == [{"a": 1}, {"b": 1}]


def test_the_loser_who_waits_gets_its_reward_and_its_end():
    env, out = begun(GAME)
    act(env, out, 0, 0)
    act(env, out, 0, 0)
    last = act(env, out, 0, 0)
    assert last.valid.tolist() == [True, False]
    assert last.reward.tolist() == [1, -1]
    assert last.terminated.tolist() == [True, True]
    np.testing.assert_array_equal(last.final_obs["observation"], [[5], [6]])
    assert last.begun == [0, 1]
    assert last.acting.tolist() == [True, False]
    np.testing.assert_array_equal(out["observation"], [[1], [2]])  # the next episode has begun for a
    (episode,) = last.episodes
    assert (episode.env_index, episode.episode_number, episode.length) == (0, 0, 3)
    assert episode.episode_return == pytest.approx((1.5 - 0.75) / 2)
    assert episode.metrics == {
        "actor/a/return_mean": 1.5,
        "actor/b/return_mean": -0.75,
        "actor/a/length_mean": 2,
        "actor/b/length_mean": 1,
    }


def test_a_dead_agent_waits_while_the_others_play_on_and_its_truncation_is_no_termination():
    env, out = begun(
        [
            Round({"a": o(1), "b": o(2)}),
            Round({"b": o(3)}, {"a": -1, "b": 1}, truncated={"a": o(9)}),
            Round({}, {"b": 2}, {"b": o(4)}),
        ]
    )
    first = act(env, out, 0, 0)
    assert first.truncated.tolist() == [True, False]
    assert not first.terminated.any()
    assert not first.episodes
    second = act(env, out, 0, 0)
    assert second.valid.tolist() == [False, True]
    assert second.terminated.tolist() == [False, True]
    assert len(second.episodes) == 1


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ([Round({})], "no agent acts after the reset"),
        ([Round({"a": o(0)}), Round({})], "nobody acts next, but a neither terminated nor truncated"),
        ([Round({"x": o(0)})], "names an agent 'x'"),
        ([Round({"a": o(0)}), Round({"a": o(np.nan)})], "value of observation 'observation' that is not finite"),
        ([Round({"a": o(0)}), Round({"a": o(0)}, {"a": np.inf})], "reward that is not finite"),
        ([Round({"a": o(0)}), Round({"a": np.zeros(3)})], "does not match the observation space at 'observation'"),
        ([Round({"a": o(0)})], "raised IndexError"),
    ],
)
def test_an_environment_that_breaks_the_rules_is_named(turns, message):
    with pytest.raises(RunError, match=message) as caught:
        act(*begun(turns), 0, 0)
    moment = "at the reset of episode 0" if len(turns) == 1 and "IndexError" not in message else "(episode 0, step 1)"
    assert f"environment 0 {moment}" in str(caught.value)


def test_agents_without_spaces_are_refused_by_name():
    env = Script(GAME)
    del env.action_spaces["b"]
    with pytest.raises(ConfigError, match="the agent 'b' has no action space"):
        AgentsVectorEnv(lambda _: env, 1)


def test_a_limit_truncates_everybody_who_is_in_the_episode():
    turns = [Round({"a": o(1)}), Round({"b": o(2)}), Round({"a": o(3)}), Round({"b": o(4)})]
    env = AgentsVectorEnv(lambda _: LimitedAgents(Script(turns, ("a", "b", "c")), 2), 1)
    out = rows_of(env)
    env.reset(SEEDS, out)
    act(env, out, 0, 0, 0)
    last = act(env, out, 0, 0, 0)
    assert last.truncated.tolist() == [True, True, False]
    np.testing.assert_array_equal(last.final_obs["observation"], [[3], [2]])
    assert last.episodes[0].length == 2


def play(env, steps, out, rngs):
    """Step with random allowed actions; return everything that the environment gave."""
    policy = RandomPolicy(CrowdConfig())
    policy.setup(env.observation_space, env.action_space)
    seen = []
    for _ in range(steps):
        result = env.step(policy.act(out, rngs), out)
        arrays = (result.reward, result.terminated, result.truncated, result.valid, result.acting, *out.values())
        final = () if result.final_obs is None else (result.final_indices, *result.final_obs.values())
        seen.append(([each.copy() for each in (*arrays, *final)], result.episodes))
    return seen


def same(first, second):
    for (one, episodes), (two, others) in zip(first, second, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
        assert episodes == others


def generators(env):
    return [np.random.default_rng(row) for row in range(env.num_envs)]


@pytest.mark.parametrize("later", ["dev", "local"])
@pytest.mark.parametrize("steps", [5, 30])
def test_a_restored_environment_goes_on_exactly_in_this_process_and_in_workers(steps, later):
    with closing(AgentsVectorEnv(BUILDER.agents_env, 3)) as env:
        out, rngs = rows_of(env), generators(env)
        env.reset(SEEDS, out)
        play(env, steps, out, rngs)
        state, current = env.state(), {key: leaf.copy() for key, leaf in out.items()}
        after = [rng.bit_generator.state for rng in rngs]
        expected, final = play(env, 40, out, rngs), env.state()
    assert sum(len(episodes) for _, episodes in expected) > 3
    other = AgentsVectorEnv(BUILDER.agents_env, 3) if later == "dev" else process_envs(BUILDER, 3, 2)
    with closing(other) as env, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert env.num_envs == 9
        assert env.agents == Crowd.agents
        out, rngs = rows_of(env), generators(env)
        for rng, its in zip(rngs, after, strict=True):
            rng.bit_generator.state = its
        env.restore(SEEDS, state, out)
        assert all(np.array_equal(out[key], current[key]) for key in out)
        same(play(env, 40, out, rngs), expected)
        for name, value in env.state().items():
            np.testing.assert_equal(value, final[name])


def test_a_replay_that_differs_is_reported():
    with closing(AgentsVectorEnv(BUILDER.agents_env, 1)) as env:
        out = rows_of(env)
        env.reset(SEEDS, out)
        play(env, 3, out, generators(env))
        state = env.state()
        state["rewards"] = state["rewards"] + 1
        with pytest.warns(RuntimeWarning, match="not reproducible"):
            env.restore(SEEDS, state, out)


def test_uses_that_need_one_agent_are_refused():
    with pytest.raises(ConfigError, match="several agents act in the environments of 'crowd'"):
        BUILDER(0)


class Watched(Script):
    """A script whose critics see two numbers."""

    critic_space = spaces.Box(0, 9, (2,), np.float32)


WATCHED = [replace(turn, critic=np.full(2, number, np.float32)) for number, turn in enumerate(GAME)]


def test_what_critics_see_is_in_the_row_of_whoever_acts_and_in_last_observations():
    env = AgentsVectorEnv(lambda _: Watched(WATCHED), 1)
    assert env.observation_space["critic"] == Watched.critic_space
    out = rows_of(env)
    env.reset(SEEDS, out)
    seen = [out["critic"][0, 0]]
    for agent_row in (1, 0):
        act(env, out, 1, 1)
        seen.append(out["critic"][agent_row, 1])
    assert seen == [0, 1, 2]
    result = act(env, out, 1, 1)
    np.testing.assert_array_equal(result.final_obs["critic"], np.full((2, 2), 3))
    assert out["critic"][0, 0] == 0


def test_a_time_limit_keeps_what_critics_see():
    env = AgentsVectorEnv(lambda _: LimitedAgents(Watched(WATCHED), 2), 1)
    out = rows_of(env)
    env.reset(SEEDS, out)
    act(env, out, 1, 1)
    result = act(env, out, 1, 1)
    assert result.truncated.all()
    np.testing.assert_array_equal(result.final_obs["critic"], np.full((2, 2), 2))


def test_what_critics_see_is_checked():
    env = AgentsVectorEnv(lambda _: Watched(GAME), 1)
    with pytest.raises(ConfigError, match="critic"):
        env.reset(SEEDS, rows_of(env))
    nan = [replace(WATCHED[0], critic=np.full(2, np.nan, np.float32))]
    env = AgentsVectorEnv(lambda _: Watched(nan), 1)
    with pytest.raises(RunError, match=r"environment 0 .* 'critic' that is not finite"):
        env.reset(SEEDS, rows_of(env))

    class Taken(Watched):
        def __init__(self):
            super().__init__(WATCHED)
            own = spaces.Dict({"x": self.observation_spaces["a"], "critic": spaces.Discrete(2)})
            self.observation_spaces = dict.fromkeys(self.agents, own)

    with pytest.raises(ConfigError, match="the agents observe a key 'critic'"):
        AgentsVectorEnv(lambda _: Taken(), 1)
