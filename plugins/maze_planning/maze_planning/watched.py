"""Environments that remember their episode so far, for a planner that looks ahead from where they stand."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

import gymnasium
from maze_actors.agents import MultiAgentEnv, Round, WrappedAgents


class WatchedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment with one agent that remembers its episode."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.seed: int | None = None
        """The seed of the episode; None: it is not known."""
        self.taken: list[Any] = []
        """The actions since its beginning."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self.seed, self.taken = None if options else seed, []
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step."""
        self.taken.append(copy.deepcopy(action))
        return cast("tuple[Any, Any, bool, bool, dict[str, Any]]", self.env.step(action))


class WatchedAgents(WrappedAgents):
    """An environment with several agents that remembers its episode, and what the agents see."""

    def __init__(self, env: MultiAgentEnv) -> None:
        super().__init__(env)
        self.seed: int | None = None
        """The seed of the episode; None: none has begun."""
        self.taken: list[Any] = []
        """The actions since its beginning, as `step` received them."""
        self.round = Round({})
        """The result of the last reset or step."""
        self.seen: dict[str, Any] = {}
        """What each agent of the episode has seen last."""

    def reset(self, seed: int) -> Round:
        """Begin an episode."""
        self.seed, self.taken = seed, []
        self.round = super().reset(seed)
        self.seen = dict(self.round.acting)
        return self.round

    def step(self, actions: Mapping[str, Any]) -> Round:
        """Step."""
        self.taken.append(copy.deepcopy(dict(actions)))
        self.round = super().step(actions)
        self.seen |= self.round.acting
        return self.round
