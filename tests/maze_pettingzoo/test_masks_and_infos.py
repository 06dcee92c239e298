"""Masks and infos of agents reach who needs them, and what would be ignored is refused."""

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from gymnasium import spaces
from maze_actors.vector_env import AgentsVectorEnv
from maze_devkit.joint import JointEnv
from maze_pettingzoo.adapters import AgentsInTurn, AgentsTogether
from pettingzoo.utils.conversions import parallel_to_aec

from maze_core.base.errors import MazeError, RunError
from maze_core.collect.policies.random import RandomPolicy
from maze_core.envs.spaces import allocate, space_specs
from maze_core.plugins.config.base import PluginConfig
from tests.maze_pettingzoo.games import CHOICES, SEEDS, SPACE, Lives


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


@pytest.mark.parametrize("agent_ids", [False, True])
@pytest.mark.parametrize("where", ["observation", "info"])
@pytest.mark.parametrize("name", TWICE)
def test_masks_of_several_choices_hold(name, where, agent_ids):
    env = AgentsVectorEnv(lambda _: AgentsTogether(Split(*TWICE[name], where)), 2, agent_ids=agent_ids)
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


class Untold(Told):
    """Its infos are none at all."""

    def _all(self, told):
        return None if told is self._say and self._steps > 1 else super()._all(told)


@pytest.mark.parametrize("wrong", [None, [], "wind"])
def test_infos_that_are_no_dicts_are_refused(wrong):
    for env, named in (
        (Told(BOTH, CHOOSING, lambda a, n: SEEN, lambda a, n: wrong if (a, n) == ("b", 2) else {}), "an info of 'b'"),
        (Untold(BOTH, CHOOSING, lambda a, n: SEEN, lambda a, n: {}), "infos"),
    ):
        with pytest.raises(MazeError, match=f"returns {named} .*no dict"):
            told(env)
