"""All agents of an environment as one, so that checks of single environments can step it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

if TYPE_CHECKING:
    from maze_core.envs.agents import MultiAgentEnv, Round


class JointEnv(gymnasium.Env[Any, Any]):
    """One agent that acts for everybody: an observation and an action for each agent, the sum of all rewards.

    An agent that does not act shows its last observation, before the first one a fixed sample; its action is ignored.
    A choice that an agent's `action_mask` forbids is replaced by one that it allows. The episode is truncated where
    every agent that ended in its last step was.
    """

    def __init__(self, env: MultiAgentEnv) -> None:
        self._env = env
        seen = {}
        for name, space in env.observation_spaces.items():
            space.seed(0)
            seen[name] = space.sample()
        self._samples = seen
        self.observation_space = spaces.Dict(dict(env.observation_spaces))
        self.action_space = spaces.Dict(dict(env.action_spaces))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        chosen = int(self.np_random.integers(2**31)) if seed is None else seed
        self._seen = dict(self._samples)
        return self._after(self._env.reset(chosen)), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step with the actions of the agents that act."""
        outcome = self._env.step({name: self._allowed(name, action[name]) for name in self._round.acting})
        observation, over = self._after(outcome), not outcome.acting
        cut = over and not outcome.terminated
        return observation, float(sum(outcome.rewards.values())), over and not cut, cut, {}

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _after(self, outcome: Round) -> dict[str, Any]:
        self._round = outcome
        self._seen = {**self._seen, **outcome.acting, **outcome.terminated, **outcome.truncated}
        return dict(self._seen)

    def _allowed(self, name: str, action: Any) -> Any:
        observation = self._round.acting[name]
        mask = observation.get("action_mask") if isinstance(observation, Mapping) else None
        if mask is None or not isinstance(self._env.action_spaces[name], spaces.Discrete) or mask[action]:
            return action
        allowed = np.flatnonzero(mask)
        return allowed[int(action) % len(allowed)]
