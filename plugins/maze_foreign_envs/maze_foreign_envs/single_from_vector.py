"""A natively vectorised environment of size one as a single environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from maze_core.envs.checks import check_info
from maze_core.envs.wrappers import Meter
from maze_foreign_envs.rows import vector_reward_meter


class LoneEnv(gymnasium.Env[Any, Any]):
    """A vectorised environment of size one as a single one: same spaces, same transitions.

    The caller resets it at the end of an episode. Where the environment resets itself in the same step, the last
    observation of the episode comes from its `info["final_obs"]`.

    Raises:
        ValueError: the vectorised environment has more than one.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any]) -> None:
        if env.num_envs != 1:
            raise ValueError(f"a vectorised environment with one environment is needed, not with {env.num_envs}")
        self._env = env
        self.observation_space, self.action_space = env.single_observation_space, env.single_action_space
        self._observations = batch_space(self.observation_space, 1)
        self._rewards = vector_reward_meter(env)
        self.meter = None if self._rewards is None else Meter()
        """Counts the rewards below the wrappers."""
        self.metadata, self.render_mode, self.spec = env.metadata, env.render_mode, env.spec

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        observation, info = self._env.reset(seed=seed, options=options)
        return self._only(observation), _only_info(info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step."""
        out: Any = create_empty_array(self.action_space, 1)
        actions = concatenate(self.action_space, [action], out)
        observation, reward, terminated, truncated, info = self._env.step(actions)
        check_info(info)
        if self._rewards is not None and self.meter is not None:
            self.meter.add(float(self._rewards.last[0]))
        ended = bool(terminated[0]), bool(truncated[0])
        final = info.get("final_obs") if any(ended) else None
        if final is not None:
            last = final[0] if isinstance(final, np.ndarray) and final.dtype == object else self._only(final)
        else:
            last = self._only(observation)
        return last, float(reward[0]), *ended, _only_info(info)

    def render(self) -> Any:
        """Return the environment's picture."""
        pictures: Any = self._env.render()
        return pictures[0] if pictures is not None and len(pictures) else None

    def close(self) -> None:
        """Close the vectorised environment."""
        self._env.close()

    def _only(self, observation: Any) -> Any:
        return next(iter(iterate(self._observations, observation)))


def _only_info(info: dict[str, Any]) -> dict[str, Any]:
    """Return the environment's entries; in gymnasium, `_key` marks the environments that have `key`."""
    return {
        key: value[0]
        for key, value in info.items()
        if not key.startswith("_") and isinstance(value, np.ndarray | list | tuple) and len(value) == 1
    }
