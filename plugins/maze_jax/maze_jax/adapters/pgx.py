"""pgx: board games, cards and others, in which players act in turn, with masks of what is allowed."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from maze_actors.agents import MultiAgentEnv, Round

from maze_core.envs.masks import MASK
from maze_jax.adapters.asked import built, chosen
from maze_jax.start import imported, jax_for


class Game(MultiAgentEnv):
    """One game: the players are `player_0`, `player_1`, …, in pgx's numbering, whoever of them begins.

    Raises:
        ConfigError: pgx is not installed, or has no such game.
    """

    def __init__(self, name: str, flatten: bool) -> None:
        self._jax = jax_for("pgx")
        env, self._begin, self._move, self._seen_by = _compiled(name)
        self.agents = [f"player_{i}" for i in range(env.num_players)]
        board, count = tuple(env.observation_shape), int(env.num_actions)
        self._shape = (int(np.prod(board)),) if flatten else board
        box = spaces.Box(-np.inf, np.inf, self._shape, np.float32)
        seen = spaces.Dict({"observation": box, MASK: spaces.MultiBinary(count)})
        self.observation_spaces: Mapping[str, Space[Any]] = dict.fromkeys(self.agents, seen)
        self.action_spaces: Mapping[str, Space[Any]] = {each: spaces.Discrete(count) for each in self.agents}

    def reset(self, seed: int) -> Round:
        """Begin a game: the seed decides chance, and who begins."""
        self._key, own = self._jax.random.split(self._jax.random.PRNGKey(seed % 2**32))
        self._state = self._begin(own)
        return self._round({})

    def step(self, actions: Mapping[str, Any]) -> Round:
        """Let the player whose turn it is move."""
        (action,) = actions.values()
        self._key, own = self._jax.random.split(self._key)
        self._state = self._move(self._state, np.int32(action), own)
        rewards = np.asarray(self._state.rewards, np.float64).tolist()
        return self._round(dict(zip(self.agents, rewards, strict=True)))

    def _round(self, rewards: Mapping[str, float]) -> Round:
        state = self._state
        if not (bool(state.terminated) or bool(state.truncated)):
            return Round({self.agents[int(state.current_player)]: self._observed(state.observation)}, rewards)
        last = {name: self._observed(self._seen_by(state, i)) for i, name in enumerate(self.agents)}
        return Round({}, rewards, last, {}) if bool(state.terminated) else Round({}, rewards, {}, last)

    def _observed(self, board: Any) -> dict[str, np.ndarray]:
        mask = np.asarray(self._state.legal_action_mask, np.int8)
        return {"observation": np.asarray(board, np.float32).reshape(self._shape), MASK: mask}

    def __deepcopy__(self, memo: dict[int, Any]) -> Game:
        """Return a copy of this moment of the game, for planners: its arrays never change."""
        return copy.copy(self)


@cache
def _compiled(name: str) -> tuple[Any, Any, Any, Any]:
    """Return a game with its functions, compiled once for all copies: beginning, a move, what a player sees."""
    jax, pgx = imported("jax", "pgx"), imported("pgx", "pgx")
    env = built("pgx", pgx.make, chosen("pgx", name, pgx.available_envs()), {})
    seen_by = jax.jit(lambda state, player: env.observe(state.replace(current_player=player)))
    return env, jax.jit(env.init), jax.jit(env.step), seen_by
