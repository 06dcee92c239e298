"""A pool of environments as a vectorised environment of gymnasium."""

from __future__ import annotations

import warnings
from typing import Any

import envpool
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from maze_core import ConfigError


class Pool(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Several copies of one environment, which reset themselves in the step after the end of an episode.

    EnvPool fixes its seeds when a pool is built, so `reset` with a seed builds it again. EnvPool numbers the seeds of
    the copies upwards from one, so that pools with neighbouring seeds would share episodes; here each copy has one of
    its own, derived from the pool's.

    Raises:
        ConfigError: an option has a wrong value, or several agents act.
    """

    _pool: Any

    def __init__(self, env_id: str, num_envs: int, seed: int, options: dict[str, Any]) -> None:
        self.num_envs, self._id, self._options = num_envs, env_id, options
        self.metadata: dict[str, Any] = {
            "autoreset_mode": AutoresetMode.NEXT_STEP,
            "render_modes": ["rgb_array"],
            "render_fps": 30,
        }
        self.render_mode = "rgb_array"
        self._build(seed)
        self.single_observation_space = _bounded(self._pool.observation_space)
        self.single_action_space = self._pool.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode everywhere. A seed may be any integer from 0 on."""
        if seed is not None:
            self._build(seed)
        observation, info = self._pool.reset()
        return observation, info

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step everywhere; where an episode has ended in the step before, begin the next one."""
        observation, reward, terminated, truncated, info = self._pool.step(actions)
        return observation, reward, terminated, truncated, info

    def render(self) -> tuple[np.ndarray, ...]:
        """Return a picture of each environment, uint8 [height, width, 3]."""
        return tuple(self._pool.render(env_ids=self._pool.all_env_ids))

    def close_extras(self, **kwargs: Any) -> None:
        """Drop the pool, which ends its threads."""
        self._pool = None

    def _build(self, seed: int) -> None:
        self._pool = None  # its threads end before those of the next one begin
        words = np.random.SeedSequence(seed).generate_state(self.num_envs)
        seeds = (words >> 1).tolist()  # EnvPool takes 31 bits
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about the precision of bounds
                pool: Any = envpool.make(
                    self._id,
                    env_type="gymnasium",
                    num_envs=self.num_envs,
                    seed=seeds,
                    render_mode="rgb_array",
                    **self._options,
                )
                pool.observation_space, pool.action_space  # noqa: B018 — kept by the pool
        except (TypeError, ValueError, AssertionError, RuntimeError) as error:
            raise ConfigError(f"EnvPool refuses the options of {self._id}: {error}", "env.kwargs") from error
        if pool.config["max_num_players"] != 1:
            raise ConfigError(f"several agents act in {self._id}; only environments of one are supported", "env.id")
        self._pool = pool


def _bounded(space: Any) -> Any:
    """Return a space with infinite bounds where EnvPool has the smallest or largest number of the type."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: _bounded(part) for key, part in space.spaces.items()})
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        return space
    limits = np.finfo(space.dtype)
    low = np.where((space.low == limits.tiny) | (space.low <= limits.min), -np.inf, space.low)
    high = np.where(space.high >= limits.max, np.inf, space.high)
    return spaces.Box(low.astype(space.dtype), high.astype(space.dtype), space.shape, space.dtype)
