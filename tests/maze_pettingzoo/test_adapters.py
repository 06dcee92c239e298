"""PettingZoo's games by both of its interfaces, and that they come out as PettingZoo itself plays them."""

import copy
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from maze_actors.agents import LimitedAgents
from maze_actors.vector_env import AgentsVectorEnv
from maze_onpolicy.collect.agent_row_sink import AgentRowSink
from maze_pettingzoo.adapters import AgentsInTurn, AgentsTogether
from maze_planning.copy_check import copies_by_replay
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.classic.connect_four import connect_four
from pettingzoo.classic.rps import rps
from pettingzoo.classic.tictactoe import tictactoe
from pettingzoo.test import parallel_api_test
from pettingzoo.utils.conversions import parallel_to_aec

from maze_core.base.errors import ConfigError
from maze_core.collect.agents.agent import Agent, Choice
from maze_core.collect.stepper import Stepper
from tests.maze_pettingzoo.games import SEEDS, Lives


class ByObservation(Agent):
    """An agent whose action depends on the observation alone, so that the order of the rows does not matter."""

    def __init__(self, rng=None):
        """With a random generator it acts at random instead."""
        self._rng = rng

    def act(self, obs):
        leaf = next(leaf for key, leaf in obs.items() if not key.endswith("_mask"))
        rows = leaf.reshape(len(leaf), -1).astype(np.float64)
        wish = (np.abs(rows @ np.arange(1, rows.shape[1] + 1)) * 1000).astype(np.int64)
        if self._rng is not None:
            wish = self._rng.integers(1000, size=len(rows))
        masks = obs.get("action_mask", np.ones((len(rows), 3), np.int8))
        chosen = np.array([np.flatnonzero(mask)[w % mask.sum()] for mask, w in zip(masks, wish, strict=True)])
        return Choice({"action": chosen}, {"action": chosen})


def transitions(adapter, episodes, rng=None):
    """The multiset of all transitions of some episodes: agent, observation, action, reward, end, next observation."""
    env = AgentsVectorEnv(lambda _: adapter, 1)
    agent_rows, steps = len(env.agents), 4000
    samples = {"action": np.zeros((steps, agent_rows), np.int64)}
    sink, stepper = AgentRowSink(env, samples), Stepper(env, SEEDS)
    obs = sink.rollout.obs
    stepper.reset(sink.current)
    stepper.continue_from(sink.carry())
    while len(sink.rollout.episodes) < episodes:
        stepper.step(ByObservation(rng), sink)
    stopped = sink.state()["open"]
    sink.finish()
    found = Counter()
    for agent_row, name in enumerate(env.agents):
        cuts = {t: {k: v[list(rows).index(agent_row)] for k, v in leaves.items()}
                for t, rows, leaves in sink.rollout.truncations if agent_row in rows}  # fmt: skip
        rows = int(sink.rollout.valid[:, agent_row].sum())
        for t in range(rows):
            end = int(sink.rollout.terminated[t, agent_row]) + 2 * int(sink.rollout.truncated[t, agent_row])
            after = cuts.get(t, {k: v[t + 1, agent_row] for k, v in obs.items()})
            following = None if end == 1 else tuple(v.tobytes() for v in after.values())
            reward = round(float(sink.rollout.rewards[t, agent_row]), 4)
            seen = tuple(leaf[t, agent_row].tobytes() for leaf in obs.values())
            found[name, seen, samples["action"][t, agent_row], reward, end, following] += 1
    assert not stopped.any()
    returns = [episode.metrics for episode in sink.rollout.episodes]
    return found, returns, [episode.length for episode in sink.rollout.episodes]


def spread(module):
    return module.env(max_cycles=6), module.parallel_env(max_cycles=6)


def pairs():

    mpe = pytest.importorskip("mpe2")
    from mpe2 import simple_adversary_v3, simple_spread_v3  # noqa: F401 — the adversary has spaces of its own

    assert mpe
    return {
        "simple_spread": spread(simple_spread_v3),
        "rock, paper, scissors": (rps.env(max_cycles=5), rps.parallel_env(max_cycles=5)),
        "lives": (parallel_to_aec(Lives()), Lives()),
    }


@pytest.mark.parametrize("name", ["simple_spread", "rock, paper, scissors", "lives"])
def test_a_game_gives_the_same_transitions_by_both_interfaces(name):
    aec, parallel = pairs()[name]
    first, returns, lengths = transitions(AgentsInTurn(aec), 5)
    second, others, lengths_2 = transitions(AgentsTogether(parallel), 5)
    assert first == second
    assert sum(first.values()) > 5
    for mine, theirs in zip(returns, others, strict=True):
        assert mine == pytest.approx(theirs)
    assert lengths != lengths_2 or name == "lives"


def test_a_limit_pays_agents_what_they_would_be_told_at_their_turn():
    together, in_turn = AgentsTogether(Lives()), LimitedAgents(AgentsInTurn(parallel_to_aec(Lives())), 3)
    seed, actions = 1, {"a": 1, "b": 2, "c": 1}
    together.reset(seed)
    wanted = together.step(actions)
    turn = in_turn.reset(seed)
    for name in actions:
        assert list(turn.acting) == [name]
        turn = in_turn.step({name: actions[name]})
    assert wanted.rewards == turn.rewards
    assert all(wanted.rewards.values())
    assert not wanted.terminated
    assert set(turn.truncated) == set(actions)


@pytest.mark.parametrize("module", [tictactoe, connect_four])
def test_the_loser_of_a_game_in_turns_learns_of_it(module):
    """Its reward is paid in the opponent's turn."""
    env = AgentsInTurn(module.env())
    found, returns, lengths = transitions(env, 12, np.random.default_rng(1))
    first, second = (f"actor/{name}/return_mean" for name in env.agents)
    decided = [each for each in returns if each[first] != 0]
    assert {each[first] for each in decided} == {1, -1}
    for each in decided:
        assert each[first] == -each[second]
    lost = sum(n for (_, _, _, reward, end, _), n in found.items() if reward == -1 and end == 1)
    won = sum(n for (_, _, _, reward, end, _), n in found.items() if reward == 1 and end == 1)
    assert lost == won == len(decided)
    assert sum(found.values()) == sum(lengths)  # each move is one transition


@pytest.mark.parametrize("module", [tictactoe, connect_four])
def test_a_game_is_copied_in_the_middle_and_goes_on_alone(module):
    """PettingZoo's own copies begin anew."""
    env = AgentsInTurn(module.env())
    outcome = env.reset(0)
    for action in (4, 2):
        outcome = env.step({next(iter(outcome.acting)): action})
    twin = copy.deepcopy(env)
    assert twin.observation_spaces is env.observation_spaces
    for action in (6, 3, 5):
        (name,) = outcome.acting
        outcome, its = env.step({name: action}), twin.step({name: action})
        ((mover, seen),), ((its_mover, its_seen),) = outcome.acting.items(), its.acting.items()
        assert mover == its_mover
        assert {key: leaf.tolist() for key, leaf in seen.items()} == {k: leaf.tolist() for k, leaf in its_seen.items()}
    before = env.env.observe(mover)["observation"]
    twin.step({mover: 1})
    np.testing.assert_array_equal(env.env.observe(mover)["observation"], before)


@pytest.mark.parametrize("name", ["tictactoe_v3", "connect_four_v3", "rps_v2"])
def test_games_are_copied_without_a_replay(quick, name):
    run = quick({"name": "pettingzoo", "id": f"pettingzoo.classic:{name}"}).run
    assert not copies_by_replay(run.env_builder("evaluation"), 0)


def test_a_view_of_the_state_looks_at_the_copy():
    class Known(Lives):
        def state(self):
            return np.array([self.left], np.float32)

        def reset(self, seed=None, options=None):
            self.left = 3
            return super().reset(seed, options)

    env = AgentsTogether(Known(), critic="state")
    env.reset(0)
    twin = copy.deepcopy(env)
    twin.env.left = 1
    actions = dict.fromkeys(env.agents, 0)
    assert [each.step(actions).critic.tolist() for each in (env, twin)] == [[3], [1]]


def test_masks_in_the_info_become_a_leaf_that_masks_the_action():
    env = AgentsTogether(Lives(masks="info"))
    turn = env.reset(1)
    np.testing.assert_array_equal(turn.acting["a"]["action_mask"], [1, 0, 1])
    assert env.observation_spaces["a"].contains(turn.acting["a"])
    found, _, _ = transitions(env, 3)
    assert {action for _, _, action, *_ in found} == {0, 2}


def test_boards_become_vectors_and_agents_get_a_number():
    env = AgentsInTurn(connect_four.env(), agent_id=True)
    observation = env.reset(0).acting["player_0"]
    assert env.observation_spaces["player_0"].contains(observation)
    assert observation["observation"].shape == (84,)
    np.testing.assert_array_equal(observation["agent"], [1, 0])
    second = env.step({"player_0": 3}).acting["player_1"]
    np.testing.assert_array_equal(second["agent"], [0, 1])
    board = AgentsInTurn(connect_four.env(), flatten_boards=False)
    assert board.reset(0).acting["player_0"]["observation"].shape == (6, 7, 2)


@pytest.mark.parametrize(("score", "wanted"), [("mean", 2.0), ("sum", 4.0), ("a", 1.0)])
def test_the_score_is_what_was_asked_for(score, wanted):
    assert AgentsTogether(Lives(), score=score).score({"a": 1.0, "b": 3.0}) == wanted


def test_a_score_of_nobody_is_refused():
    with pytest.raises(ConfigError, match="'d' is neither mean nor sum nor an agent"):
        AgentsTogether(Lives(), score="d")


class Back(ParallelEnv):
    """An adapter as a parallel environment of PettingZoo, for PettingZoo's own test."""

    render_mode = None
    metadata = {"name": "back_v0"}  # noqa: RUF012

    def __init__(self, env):
        self._env, self.possible_agents = env, list(env.agents)

    def observation_space(self, agent):
        return self._env.observation_spaces[agent]

    def action_space(self, agent):
        return self._env.action_spaces[agent]

    def reset(self, seed=None, options=None):
        turn = self._env.reset(0 if seed is None else seed)
        self.agents = list(turn.acting)
        return dict(turn.acting), {agent: {} for agent in self.agents}

    def step(self, actions):
        before, turn = self.agents, self._env.step(actions)
        self.agents = [agent for agent in before if agent in turn.acting]
        seen = {**turn.acting, **turn.terminated, **turn.truncated}
        flags = ({agent: agent in ended for agent in before} for ended in (turn.terminated, turn.truncated))
        rewards = {agent: turn.rewards.get(agent, 0.0) for agent in before}
        return seen, rewards, *flags, {agent: {} for agent in before}


@pytest.mark.parametrize("name", ["simple_spread", "rock, paper, scissors", "lives"])
def test_pettingzoos_own_test_passes_through_the_adapter(name):
    parallel_api_test(Back(AgentsTogether(pairs()[name][1])), num_cycles=60)


def test_games_in_turn_end_as_pettingzoo_says():
    """The same random moves through the adapter and through PettingZoo's own loop."""
    own, env = tictactoe.env(), AgentsInTurn(tictactoe.env())
    for game in range(30):
        rng = np.random.default_rng(game)
        own.reset(seed=game)
        turn, totals = env.reset(game), Counter()
        mine = Counter()
        while turn.acting:
            ((name, seen),) = turn.acting.items()
            assert name == own.agent_selection
            np.testing.assert_array_equal(seen["observation"].reshape(3, 3, 2), own.observe(name)["observation"])
            action = rng.choice(np.flatnonzero(seen["action_mask"]))
            own.step(action)
            for agent, reward in own.rewards.items():
                totals[agent] += reward
            turn = env.step({name: action})
            for agent, reward in turn.rewards.items():
                mine[agent] += reward
        assert {k: v for k, v in mine.items() if v} == {k: v for k, v in totals.items() if v}
        assert all(own.terminations.values())
    assert isinstance(own, AECEnv)
