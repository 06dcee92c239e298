"""All agents of an environment as one, so that checks of single environments can step it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from maze_core import flatten_space
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.masks import mask_leaves, member_sizes

if TYPE_CHECKING:
    from maze_actors.agents import MultiAgentEnv, Round


class JointEnv(gymnasium.Env[Any, Any]):
    """One agent that acts for everybody: an observation and an action for each agent, the sum of all rewards.

    An agent that does not act shows its last observation, before the first one a fixed sample; its action is ignored.
    A choice that an agent's mask forbids is replaced by one that it allows. The episode is truncated where
    every agent that ended in its last step was.
    """

    def __init__(self, env: MultiAgentEnv) -> None:
        self._env = env
        seen = {}
        for name, space in env.observation_spaces.items():
            space.seed(0)
            seen[name] = space.sample()
        self._samples = seen
        self._masks = {n: mask_leaves(env.observation_spaces[n], env.action_spaces[n]) for n in seen}
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
        if not self._masks[name]:
            return action
        space = self._env.action_spaces[name]
        observed = ObservationCodec(self._env.observation_spaces[name]).tree(self._round.acting[name])
        codec, leaves = ActionCodec(space), flatten_space(space, "action")
        tree = codec.tree(action)
        for key, masks in self._masks[name].items():
            allowed = np.concatenate([observed[leaf].reshape(-1) != 0 for leaf in masks])
            tree[key] = _permitted(leaves[key], tree[key], allowed)
        return codec.rows(tree)[0]


def _permitted(space: Space[Any], taken: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return the choices of an action leaf [1, …], forbidden ones replaced by allowed ones."""
    if isinstance(space, spaces.MultiBinary):
        bits: np.ndarray = taken & allowed
        return bits
    choices, start = taken.reshape(-1), 0
    for member, size in enumerate(member_sizes(space)):
        free = np.flatnonzero(allowed[start : start + size])
        if len(free) and choices[member] not in free:
            choices[member] = free[choices[member] % len(free)]
        start += size
    return choices.reshape(taken.shape)
