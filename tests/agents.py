"""Environments with several agents for tests: one that follows a script, and one that is full of chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from maze_actors.agents import MultiAgentEnv, Round

from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl


class Script(MultiAgentEnv):
    """Returns the given turns, again and again; an observation is one number."""

    def __init__(self, turns: Sequence[Round], agents: Sequence[str] = ("a", "b")) -> None:
        self.agents, self._turns = agents, turns
        self.observation_spaces = dict.fromkeys(agents, spaces.Box(-np.inf, np.inf, (1,), np.float32))
        self.action_spaces = dict.fromkeys(agents, spaces.Discrete(2))
        self.asked: list[dict[str, Any]] = []

    def reset(self, seed: int) -> Round:
        self._next = 1
        return self._turns[0]

    def step(self, actions: Mapping[str, Any]) -> Round:
        self.asked.append(dict(actions))
        self._next += 1
        return self._turns[self._next - 1]


def in_turns(agents: int) -> Script:
    """Return a game in which one agent acts at a time, and is paid when the next one has acted."""
    names = [f"agent {number}" for number in range(agents)]
    seen = [np.array([t], np.float32) for t in range(14)]
    turns = [Round({names[t % agents]: seen[t]}, {names[(t - 1) % agents]: 1.0} if t else {}) for t in range(13)]
    return Script([*turns, Round({}, {}, dict.fromkeys(names, seen[13]))], names)


class Crowd(MultiAgentEnv):
    """Three agents that act in random groups, are paid at random times, leave early, and are cut at times.

    The observation is the agent's number, a random number, and a mask that forbids one of three choices, which is
    checked. The agent `late` joins in the third step.
    """

    agents = ("one", "two", "late")

    def __init__(self) -> None:
        observation = spaces.Dict(
            {"x": spaces.Box(-np.inf, np.inf, (2,), np.float32), "action_mask": spaces.MultiBinary(3)}
        )
        self.observation_spaces = dict.fromkeys(self.agents, observation)
        self.action_spaces = dict.fromkeys(self.agents, spaces.Discrete(3))

    def reset(self, seed: int) -> Round:
        self._rng = np.random.default_rng(seed)
        self._here, self._steps = ["one", "two"], 0
        return self.turn({}, {}, {})

    def step(self, actions: Mapping[str, Any]) -> Round:
        assert actions.keys() == self._acting.keys()
        for name, action in actions.items():
            self.check(name, action)
        self._steps += 1
        rng, gone = self._rng, [name for name in self._here if self._rng.random() < 0.15]
        if self._steps == 2:
            self._here.append("late")
        rewards = {name: float(rng.integers(-2, 3)) for name in self._here if rng.random() < 0.6}
        ended: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for name in self._here[:] if self._steps >= 12 else gone:
            self._here.remove(name)
            ended[int(rng.random() < 0.4)][name] = self.observe(name)
        return self.turn(rewards, *ended)

    def turn(self, rewards: Any, terminated: Any, truncated: Any) -> Round:
        chosen = [name for name in self._here if self._rng.random() < 0.6] or self._here[:1]
        self._acting = {name: self.observe(name) for name in chosen}
        return Round(self._acting, rewards, terminated, truncated)

    def check(self, name: str, action: Any) -> None:
        assert self._acting[name]["action_mask"][action], "a forbidden action"

    def observe(self, name: str) -> Any:
        mask = np.ones(3, np.int8)
        mask[self._rng.integers(3)] = 0
        return {"x": np.array([self.agents.index(name), self._rng.normal()], np.float32), "action_mask": mask}


class Mixed(Crowd):
    """A crowd in which `two` has spaces of its own: it sees three numbers and answers with two."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_spaces["two"] = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_spaces["two"] = spaces.Box(-1, 1, (2,), np.float32)

    def check(self, name: str, action: Any) -> None:
        if name == "two":
            assert self.action_spaces["two"].contains(action), action
        else:
            super().check(name, action)

    def observe(self, name: str) -> Any:
        seen = super().observe(name)
        return np.array([*seen["x"], self._steps], np.float32) if name == "two" else seen


class CrowdConfig(PluginConfig):
    name: str = "crowd"


class CrowdSource(Plugin):
    """An env source of crowds."""

    Config = CrowdConfig

    @hookimpl
    def make_agents_env(self, config: CrowdConfig, seed: int, index: int) -> MultiAgentEnv:
        return Crowd()


class MixedSource(CrowdSource):
    """An env source of crowds with different spaces."""

    @hookimpl
    def make_agents_env(self, config: CrowdConfig, seed: int, index: int) -> MultiAgentEnv:
        return Mixed()


class Boxes(Crowd):
    """A crowd that answers with two numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_spaces = dict.fromkeys(self.agents, spaces.Box(-np.inf, np.inf, (2,), np.float32))
        self.action_spaces = dict.fromkeys(self.agents, spaces.Box(-1, 1, (2,), np.float32))

    def check(self, name: str, action: Any) -> None:
        assert self.action_spaces[name].contains(action), action

    def observe(self, name: str) -> Any:
        return super().observe(name)["x"]


class Paid(MultiAgentEnv):
    """Agents that see a sign, and are paid for the choice of the same sign: a thousand or one, in all 20 steps."""

    agents = ("rich", "poor")
    pay = {"rich": 1000.0, "poor": 1.0}  # noqa: RUF012

    def __init__(self) -> None:
        self.observation_spaces = dict.fromkeys(self.agents, spaces.Box(-1, 1, (1,), np.float32))
        self.action_spaces = dict.fromkeys(self.agents, spaces.Discrete(2))

    def reset(self, seed: int) -> Round:
        self._rng, self._steps = np.random.default_rng(seed), 0
        return Round(self._show())

    def step(self, actions: Mapping[str, Any]) -> Round:
        right = {name: actions[name] == (self._signs[name] > 0) for name in self.agents}
        rewards = {name: self.pay[name] * right[name] for name in self.agents}
        self._steps += 1
        seen = self._show()
        return Round({}, rewards, seen) if self._steps == 20 else Round(seen, rewards)

    def _show(self) -> dict[str, np.ndarray]:
        self._signs = {name: self._rng.choice([-1, 1]) for name in self.agents}
        return {name: np.array([sign], np.float32) for name, sign in self._signs.items()}


class PaidSource(CrowdSource):
    """An env source of agents with very different pay."""

    @hookimpl
    def make_agents_env(self, config: CrowdConfig, seed: int, index: int) -> MultiAgentEnv:
        return Paid()


class BoxesSource(CrowdSource):
    """An env source of crowds with Box actions."""

    @hookimpl
    def make_agents_env(self, config: CrowdConfig, seed: int, index: int) -> MultiAgentEnv:
        return Boxes()


class Team(MultiAgentEnv):
    """Three agents that act at the same time, are paid apart, and leave early; `late` joins in the third step.

    It writes down all that happens. An observation is the agent's number, a number that no other has, and the two
    newest of a walk, as stacked frames.
    """

    agents = ("one", "two", "late")

    def __init__(self) -> None:
        space = spaces.Dict({"x": spaces.Box(-np.inf, np.inf, (2,)), "frames": spaces.Box(0, 1, (2,))})
        self.observation_spaces = dict.fromkeys(self.agents, space)
        self.action_spaces = dict.fromkeys(self.agents, spaces.Discrete(3))
        self.played: list[dict[str, Any]] = []
        """Of each step, by agent: what it saw, what it did, what it was paid, how it ended, and what it saw then."""

    def reset(self, seed: int) -> Round:
        self._rng = np.random.default_rng(seed)
        self._count, self._walk = 0, [0.0, 0.0]
        self._seen = self.look(("one", "two"))
        return Round(self._seen)

    def step(self, actions: Mapping[str, Any]) -> Round:
        assert actions.keys() == self._seen.keys()
        self._count += 1
        self._walk = [self._walk[-1], float(self._rng.random())]
        rewards = {name: float(self._rng.integers(1, 9)) for name in actions}
        ends = {name: self._end() for name in actions}
        after = self.look(actions)
        self.played.append(
            {name: (self._seen[name], int(actions[name]), rewards[name], ends[name], after[name]) for name in actions}
        )
        ended = {
            how: {name: after[name] for name in actions if ends[name] == how} for how in ("terminated", "truncated")
        }
        self._seen = {name: after[name] for name in actions if not ends[name]}
        if self._count == 2 and self._seen:
            self._seen |= self.look(("late",))
        return Round(self._seen, rewards, ended["terminated"], ended["truncated"])

    def _end(self) -> str:
        if self._count == 9:
            return "truncated"
        return str(self._rng.choice(["", "terminated", "truncated"], p=[0.85, 0.1, 0.05]))

    def look(self, names: Any) -> dict[str, Any]:
        frames = np.array(self._walk, np.float32)
        return {
            name: {"x": np.array([self.agents.index(name), self._rng.normal()], np.float32), "frames": frames}
            for name in names
        }


class TeamSource(CrowdSource):
    """An env source of teams."""

    @hookimpl
    def make_agents_env(self, config: CrowdConfig, seed: int, index: int) -> MultiAgentEnv:
        return Team()
