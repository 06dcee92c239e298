"""PettingZoo's games by both of its interfaces, and that they come out as PettingZoo itself plays them."""

import copy
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from gymnasium import spaces
from maze_devkit.joint import JointEnv
from maze_pettingzoo.adapters import AgentsInTurn, AgentsTogether
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.classic.connect_four import connect_four
from pettingzoo.classic.rps import rps
from pettingzoo.classic.tictactoe import tictactoe
from pettingzoo.test import parallel_api_test
from pettingzoo.utils.conversions import parallel_to_aec

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.collect.agents.agent import Agent, Choice
from maze_core.collect.agents.copy_check import copies_by_replay
from maze_core.collect.policies.random import RandomPolicy
from maze_core.collect.rollouts.agent_row_sink import AgentRowSink
from maze_core.collect.stepper import Stepper
from maze_core.envs.several.vector_env import AgentsVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.plugins.config.base import PluginConfig

SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)


class Lives(ParallelEnv):
    """Three agents that walk at random; each dies or is cut by itself, and is paid for it."""

    metadata = {"name": "lives_v0", "is_parallelizable": True}  # noqa: RUF012
    possible_agents = ["a", "b", "c"]  # noqa: RUF012
    render_mode = None

    def __init__(self, masks="none"):
        self._masks = masks

    def observation_space(self, agent):
        return SPACE

    def action_space(self, agent):
        return CHOICES

    def reset(self, seed=None, options=None):
        self._rng = np.random.default_rng(seed)
        self.agents, self._steps = self.possible_agents[:], 0
        return self.seen(self.agents), {agent: self._info() for agent in self.agents}

    def step(self, actions):
        self._steps += 1
        alive = self.agents[:]
        ends = self._rng.random(3)
        terminated = {agent: bool(ends[self.possible_agents.index(agent)] < 0.2) for agent in alive}
        truncated = {agent: self._steps >= 8 and not terminated[agent] for agent in alive}
        rewards = {agent: float(actions[agent] - terminated[agent]) for agent in alive}
        self.agents = [agent for agent in alive if not (terminated[agent] or truncated[agent])]
        return self.seen(alive), rewards, terminated, truncated, {agent: self._info() for agent in alive}

    def seen(self, agents):
        everybody = self._rng.normal(size=(3, 2)).astype(np.float32)
        return {agent: everybody[self.possible_agents.index(agent)] for agent in agents}

    def _info(self):
        return {"action_mask": np.array([1, 0, 1], np.int8)} if self._masks == "info" else {}


SPACE = spaces.Box(-np.inf, np.inf, (2,), np.float32)
CHOICES = spaces.Discrete(3)


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
    specs = space_specs(env.observation_space, "observation")
    obs, samples = allocate(specs, (steps + 1, agent_rows)), {"action": np.zeros((steps, agent_rows), np.int64)}
    sink, stepper = (
        AgentRowSink(obs, samples, [k for k in obs if k.endswith("_mask")], lambda: None),
        Stepper(env, SEEDS),
    )
    stepper.begin(sink.current)
    stepper.move(sink.carry())
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
    from pettingzoo.utils.conversions import parallel_to_aec

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


class Split(Lives):
    """Agents that choose twice, with masks in gymnasium's form, in the observation or in the info; they are checked."""

    def __init__(self, action, masks, where):
        super().__init__()
        self._action, self._given, self._where = action, masks, where

    def observation_space(self, agent):
        return SPACE if self._where == "info" else spaces.Dict({"x": SPACE, "action_mask": mask_like(self._given)})

    def action_space(self, agent):
        return self._action

    def step(self, actions):
        for action in actions.values():
            assert [int(action[key]) for key in self._given_keys()] == [1, 2]
        return super().step(dict.fromkeys(actions, 0))

    def _given_keys(self):
        return list(self._given) if isinstance(self._given, dict) else [0, 1]

    def seen(self, agents):
        seen = super().seen(agents)
        return seen if self._where == "info" else {a: {"x": x, "action_mask": self._given} for a, x in seen.items()}

    def _info(self):
        return {"action_mask": self._given} if self._where == "info" else {}


def mask_like(masks):
    if isinstance(masks, dict):
        return spaces.Dict({key: mask_like(each) for key, each in masks.items()})
    return spaces.Tuple([mask_like(each) for each in masks]) if isinstance(masks, tuple) else spaces.MultiBinary(3)


ONLY = (np.array([0, 1, 0], np.int8), np.array([0, 0, 1], np.int8))
TWICE = {
    "members": (spaces.MultiDiscrete([3, 3]), ONLY),
    "a Dict": (spaces.Dict({"one": CHOICES, "two": CHOICES}), dict(zip(("one", "two"), ONLY, strict=True))),
    "a Tuple": (spaces.Tuple([CHOICES, CHOICES]), ONLY),
}


@pytest.mark.parametrize("tell_agents", [False, True])
@pytest.mark.parametrize("where", ["observation", "info"])
@pytest.mark.parametrize("name", TWICE)
def test_masks_of_several_choices_hold(name, where, tell_agents):
    env = AgentsVectorEnv(lambda _: AgentsTogether(Split(*TWICE[name], where)), 2, tell_agents=tell_agents)
    policy = RandomPolicy(PluginConfig(name="random"))
    policy.setup(env.observation_space, env.action_space)
    obs = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
    env.reset(SEEDS, obs)
    rngs = [np.random.default_rng(row) for row in range(env.num_envs)]
    for _ in range(15):
        env.step(policy.act(obs, rngs), obs)
    joint = JointEnv(AgentsTogether(Split(*TWICE[name], where)))
    joint.reset(seed=1)
    joint.action_space.seed(1)
    joint.step(joint.action_space.sample())


class Told(Lives):
    """Two agents that act together; tables say what each one's spaces, observations and infos are."""

    def __init__(self, observed, actions, seen, info):
        super().__init__()
        self.possible_agents = ["a", "b"]
        self._observed, self._actions, self._tell, self._say = observed, actions, seen, info

    def observation_space(self, agent):
        return self._observed[agent]

    def action_space(self, agent):
        return self._actions[agent]

    def reset(self, seed=None, options=None):
        self.agents, self._steps = self.possible_agents[:], 0
        return self._all(self._tell), self._all(self._say)

    def step(self, actions):
        self._steps += 1
        never = dict.fromkeys("ab", False)
        return self._all(self._tell), dict.fromkeys("ab", 0.0), never, never, self._all(self._say)

    def _all(self, told):
        return {agent: told(agent, self._steps) for agent in "ab"}


MASK, SEEN = np.array([1, 0, 1], np.int8), np.zeros(2, np.float32)
MASKED = spaces.Dict({"x": SPACE, "action_mask": spaces.MultiBinary(3)})
BOARD = spaces.Box(0, 1, (3, 3, 2), np.int8)
BOTH, CHOOSING = {"a": SPACE, "b": SPACE}, {"a": CHOICES, "b": CHOICES}


def told(env, steps=4):
    agent_rows = AgentsVectorEnv(lambda _: AgentsTogether(env), 1)
    out = allocate(space_specs(agent_rows.observation_space, "observation"), (2,))
    agent_rows.reset(SEEDS, out)
    idle = allocate(space_specs(agent_rows.action_space, "action"), (2,))
    for _ in range(steps):
        agent_rows.step(idle, out)
    return out


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Told(BOTH, CHOOSING, lambda a, n: SEEN, lambda a, n: {"action_mask": MASK} if n > 1 else {}),
         "step 2.* an info with 'action_mask', which would be ignored"),
        (Told(BOTH, CHOOSING, lambda a, n: SEEN, lambda a, n: {"action_mask": MASK[:3 - n]}), "step 1.* 2 entries"),
        (Told(BOTH, CHOOSING, lambda a, n: SEEN, lambda a, n: {"action_mask": [0, 2, 1]}), "not 0 and 1"),
        (Told({"a": MASKED, "b": MASKED}, CHOOSING,
              lambda a, n: {"x": SEEN, "action_mask": MASK} if n < 3 else None, lambda a, n: {}),
         "step 3.* a dict with the keys .* a NoneType"),
        (Told({"a": BOARD, "b": BOARD}, CHOOSING,
              lambda a, n: np.zeros((3, 3, 2) if n < 2 else 18, np.int8), lambda a, n: {}), r"step 2.* shape \(18,\)"),
        (Told({"a": BOARD, "b": BOARD}, CHOOSING,
              lambda a, n: np.zeros((3, 3, 2) if n < 2 else (2, 3, 3), np.int8), lambda a, n: {}), r"\(2, 3, 3\)"),
    ],
)  # fmt: skip
def test_what_would_be_ignored_or_changed_is_refused_with_its_place(env, message):
    with pytest.raises(RunError, match=rf"environment 0 [^\n]*{message}"):
        told(env)


def test_infos_come_with_what_their_agents_see():
    def wind(agent, steps):
        return {"wind": (agent, steps)}

    together = AgentsTogether(Told(BOTH, CHOOSING, lambda a, n: SEEN, wind))
    assert together.reset(1).infos == {"a": wind("a", 0), "b": wind("b", 0)}
    assert together.step({"a": 0, "b": 1}).infos == {"a": wind("a", 1), "b": wind("b", 1)}
    in_turn = AgentsInTurn(parallel_to_aec(Told(BOTH, CHOOSING, lambda a, n: SEEN, wind)))
    assert in_turn.reset(1).infos == {"a": wind("a", 0)}
    in_turn.step({"a": 0})
    assert in_turn.step({"b": 1}).infos["a"] == wind("a", 1)


def test_masks_of_some_agents_are_found_wherever_they_are():
    def some(agent, _):
        return {"action_mask": MASK} if agent == "b" else {}

    def seen(agent, _):
        return {"x": SEEN, "action_mask": MASK} if agent == "a" else SEEN

    rows = told(Told({"a": MASKED, "b": SPACE}, CHOOSING, seen, some))
    np.testing.assert_array_equal(rows["b/action_mask"][1], MASK)
    np.testing.assert_array_equal(rows["a/action_mask"][0], MASK)
    rows = told(Told(BOTH, {"a": SPACE, "b": CHOICES}, lambda a, n: SEEN, some))  # a Box action has no mask
    np.testing.assert_array_equal(rows["b/action_mask"][1], MASK)


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
