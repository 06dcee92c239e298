"""Environments whose values are known, for every way to act: half of the episodes are cut, the others end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from maze_actors.agents import MultiAgentEnv, Round

from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl

GAMMA = 0.5
VALUES = {"first of cut": 4.0, "later of cut": 2.0, "first of ended": 3.5, "later of ended": 1.0}
"""The known answers: 3 + GAMMA * 2, 1 / (1 - GAMMA), 3 + GAMMA * 1, 1.

Taking a cut for an end makes 1.33 out of the second, and continuing it from the next episode's beginning 2.67.
"""
OBSERVATIONS = np.eye(4, dtype=np.float32)
"""What is observed in each of these states."""
SEEN = spaces.Box(0, 1, (4,), np.float32)
ACTIONS: Mapping[str, spaces.Space[Any]] = {"choice": spaces.Discrete(2), "force": spaces.Box(-1, 1, (1,), np.float32)}


class Episode:
    """Pays 3 for the first action and 1 for every other one; ends with the second, or is cut at random from there on.

    What goes on for ever looks the same at every length, so a policy with memory has seen what follows a cut.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.ends, self.taken = rng, bool(rng.random() < 0.5), 0

    def seen(self) -> np.ndarray:
        """What is observed now."""
        return OBSERVATIONS[2 * self.ends + (self.taken > 0)]

    def pay(self) -> float:
        """Take an action."""
        self.taken += 1
        return 3.0 if self.taken == 1 else 1.0

    def over(self) -> bool:
        """True where this was the last action."""
        return self.taken == 2 if self.ends else self.taken > 1 and bool(self.rng.random() < 0.5)


class Paying(gymnasium.Env[np.ndarray, Any]):
    """One agent in such episodes."""

    def __init__(self, actions: str = "choice") -> None:
        self.observation_space, self.action_space = SEEN, ACTIONS[actions]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode = Episode(self.np_random)
        return self.episode.seen(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        paid, over = self.episode.pay(), self.episode.over()
        ends = self.episode.ends
        return self.episode.seen(), paid, over and ends, over and not ends, {}


class PayingTwo(MultiAgentEnv):
    """Two agents that act in turns; each is paid for its action when the other one has acted, or at the end."""

    agents = ("one", "two")

    def __init__(self, actions: str = "choice") -> None:
        self.observation_spaces = dict.fromkeys(self.agents, SEEN)
        self.action_spaces = dict.fromkeys(self.agents, ACTIONS[actions])

    def reset(self, seed: int) -> Round:
        self.episode, self.owed, self.turn = Episode(np.random.default_rng(seed)), {}, 0
        return Round({"one": self.episode.seen()})

    def step(self, actions: Mapping[str, Any]) -> Round:
        """The second agent's action is what the episode counts."""
        self.turn += 1
        if self.turn % 2:
            owed, self.owed = self.owed, {"one": 3.0 if self.turn == 1 else 1.0}
            return Round({"two": self.episode.seen()}, owed)
        paid = self.episode.pay()
        seen = self.episode.seen()
        if not self.episode.over():
            owed, self.owed = self.owed, {"two": paid}
            return Round({"one": seen}, owed)
        last = dict.fromkeys(self.agents, seen)
        ends = (last, {}) if self.episode.ends else ({}, last)
        return Round({}, self.owed | {"two": paid}, *ends)


class PayingConfig(PluginConfig):
    """Which actions there are."""

    name: str = "paying"
    actions: str = "choice"


class PayingSource(Plugin):
    """An env source of two agents."""

    Config = PayingConfig

    @hookimpl
    def make_agents_env(self, config: PayingConfig, seed: int, index: int) -> MultiAgentEnv:
        """Build one."""
        return PayingTwo(config.actions)
