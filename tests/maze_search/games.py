"""Games of two for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from maze_actors.agents import MultiAgentEnv, Round

from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl

STONES = 8


class Nim(MultiAgentEnv):
    """Who takes the last of some stones wins; each takes one, two or three, and no more than there are.

    Whoever faces a multiple of four loses against one who always leaves a multiple of four.
    """

    agents = ("first", "second")

    def __init__(self) -> None:
        seen = spaces.Dict({"left": spaces.MultiBinary(STONES + 1), "action_mask": spaces.MultiBinary(3)})
        self.observation_spaces = dict.fromkeys(self.agents, seen)
        self.action_spaces = dict.fromkeys(self.agents, spaces.Discrete(3))

    def reset(self, seed: int) -> Round:
        self.left, self._turn = 3 + seed % (STONES - 2), 0
        return Round({"first": self._look()})

    def step(self, actions: Mapping[str, Any]) -> Round:
        ((name, action),) = actions.items()
        assert name == self.agents[self._turn]
        assert action < self.left
        self.left -= int(action) + 1
        self._turn = 1 - self._turn
        if self.left == 0:
            other = self.agents[self._turn]
            return Round({}, {name: 1.0, other: -1.0}, terminated=dict.fromkeys(self.agents, self._look()))
        return Round({self.agents[self._turn]: self._look()})

    def _look(self) -> dict[str, np.ndarray]:
        mask = np.array([self.left > taken for taken in range(3)], np.int8)
        return {"left": np.eye(STONES + 1, dtype=np.int8)[self.left], "action_mask": mask}


class NimSource(Plugin):
    """An env source of such games."""

    Config = PluginConfig

    @hookimpl
    def make_agents_env(self, config: PluginConfig, seed: int, index: int) -> MultiAgentEnv:
        return Nim()


class Moody(Nim):
    """Cannot be copied or replayed: how many stones there are depends on what was played before."""

    games = 0

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("cannot pickle 'library.Board' object")

    def reset(self, seed: int) -> Round:
        Moody.games += 1
        return super().reset(Moody.games)


class MoodySource(NimSource):
    """An env source of those."""

    @hookimpl
    def make_agents_env(self, config: PluginConfig, seed: int, index: int) -> MultiAgentEnv:
        return Moody()
