"""Games of teams for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces
from maze_actors.agents import MultiAgentEnv, Round

from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl
from tests.agents import Team

SEVEN = np.full((2, 2), 7.0)
EIGHT = np.array([[0.0, 1.0], [1.0, 8.0]])


class TwoSteps(MultiAgentEnv):
    """The two-step game of Rashid et al. (2018), section 5.

    `left` chooses the game of the second step: in the first all choices pay 7, in the other they pay 0, 1, 1 or 8. Each
    of the two is paid half of that.
    """

    agents = ("left", "right")

    def __init__(self) -> None:
        self.observation_spaces = dict.fromkeys(self.agents, spaces.Box(0, 1, (5,)))
        self.action_spaces = dict.fromkeys(self.agents, spaces.Discrete(2))

    def reset(self, seed: int) -> Round:
        self._pay: np.ndarray | None = None
        return Round(self._look(0))

    def step(self, actions: Mapping[str, Any]) -> Round:
        left, right = int(actions["left"]), int(actions["right"])
        if self._pay is None:
            self._pay = EIGHT if left else SEVEN
            return Round(self._look(1 + left))
        pay = self._pay[left, right] / 2
        return Round({}, dict.fromkeys(self.agents, pay), terminated=self._look(0))

    def score(self, returns: Mapping[str, float]) -> float:
        return sum(returns.values())

    def _look(self, state: int) -> dict[str, np.ndarray]:
        """Who one is, and where the game stands."""
        return {
            name: np.array([*np.eye(2)[number], *np.eye(3)[state]], np.float32)
            for number, name in enumerate(self.agents)
        }


class TwoStepsSource(Plugin):
    Config = PluginConfig

    @hookimpl
    def make_agents_env(self, config: PluginConfig, seed: int, index: int) -> MultiAgentEnv:
        return TwoSteps()


class Guarded(Team):
    """A team whose agents may not do everything, in which `two` has spaces of its own."""

    def __init__(self) -> None:
        super().__init__()
        for name, choices in (("one", 3), ("two", 4), ("late", 3)):
            own = self.observation_spaces[name]
            self.observation_spaces[name] = spaces.Dict({**own.spaces, "action_mask": spaces.MultiBinary(choices)})
            self.action_spaces[name] = spaces.Discrete(choices)

    def step(self, actions: Mapping[str, Any]) -> Round:
        for name, action in actions.items():
            assert self._seen[name]["action_mask"][action], "a forbidden action"
        return super().step(actions)

    def look(self, names: Any) -> dict[str, Any]:
        seen = super().look(names)
        for name, each in seen.items():
            each["action_mask"] = np.ones(int(self.action_spaces[name].n), np.int8)
            each["action_mask"][self._rng.integers(3)] = 0
        return seen


class GuardedSource(TwoStepsSource):
    @hookimpl
    def make_agents_env(self, config: PluginConfig, seed: int, index: int) -> MultiAgentEnv:
        return Guarded()


class Watched(Team):
    """A team whose state critics see."""

    critic_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def reset(self, seed: int) -> Round:
        return replace(super().reset(seed), critic=self._state())

    def step(self, actions: Mapping[str, Any]) -> Round:
        return replace(super().step(actions), critic=self._state())

    def _state(self) -> np.ndarray:
        return np.array([self._count, self._walk[-1]], np.float32)


class WatchedSource(TwoStepsSource):
    @hookimpl
    def make_agents_env(self, config: PluginConfig, seed: int, index: int) -> MultiAgentEnv:
        return Watched()
