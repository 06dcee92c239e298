"""ALE's vectorised environment as Maze steps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ale_py
import gymnasium
import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode

if TYPE_CHECKING:
    from maze_atari.config import AtariConfig

_FRAMES_PER_SECOND = 60


class Games(AtariVectorEnv):
    """Several copies of one game; the next one begins in the step that ends one.

    `render` shows what a policy sees: the newest frame in gray.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012 — ALE writes into that of its class

    def __init__(self, game: str, num_envs: int, config: AtariConfig) -> None:
        super().__init__(
            game,
            num_envs,
            num_threads=config.threads,
            max_num_frames_per_episode=config.frames,
            repeat_action_probability=config.sticky_actions,
            full_action_space=config.all_actions,
            autoreset_mode=AutoresetMode.SAME_STEP,
            img_height=config.height,
            img_width=config.width,
            stack_num=config.stack,
            frameskip=config.frame_skip,
            noop_max=config.first_frames,
            reward_clipping=False,
            use_fire_reset=config.fire,
        )
        self.metadata = {**self.metadata, "render_fps": _FRAMES_PER_SECOND / config.frame_skip}
        self.render_mode = "rgb_array"
        self.max_frames = config.frames

    def reset(
        self, *, seed: int | np.ndarray | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin all games. A seed may be any integer from 0 on; each game gets one of its own derived from it."""
        if isinstance(seed, int | np.integer):
            words = np.random.SeedSequence(int(seed)).generate_state(self.num_envs)
            seed = (words >> 1).astype(np.int64)  # ALE takes 31 bits
        observation, info = super().reset(seed=seed, options=options)
        self._seen = observation
        return observation, info

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all games."""
        result: Any = super().step(actions)
        self._seen = result[0]
        return result  # type: ignore[no-any-return]

    def render(self) -> tuple[np.ndarray, ...]:
        """Return a picture of each game, uint8 [height, width, 3]."""
        return tuple(np.repeat(frames[-1][:, :, None], 3, 2) for frames in self._seen)

    @property
    def fire(self) -> int | None:
        """The number of the action FIRE; None in games without it."""
        actions = list(self.ale.get_action_set())
        return actions.index(ale_py.Action.FIRE) if ale_py.Action.FIRE in actions else None


class Lives(gymnasium.vector.VectorWrapper):
    """Watches the lives: presses FIRE after a lost one, and ends the episode there if asked for.

    ALE's own `episodic_life` begins a new game instead, so a policy would never see a game's later lives.
    """

    env: Games

    def __init__(self, env: Any, fire: bool, ends: bool) -> None:
        super().__init__(env)
        self._fire = env.fire if fire else None
        self._ends = ends
        self._lost = np.zeros(env.num_envs, np.bool_)

    def reset(
        self, *, seed: int | np.ndarray | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin all games."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._lost[:] = False
        self._lives = info["lives"].copy()
        return observation, info

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all games; the first action after a lost life is FIRE."""
        if self._fire is not None and self._lost.any():
            actions = np.where(self._lost, self._fire, actions)
        observation, reward, terminated, truncated, info = self.env.step(actions)
        ended = terminated | truncated
        self._lost = (info["lives"] < self._lives) & ~ended
        self._lives = info["lives"].copy()
        if self._ends and self._lost.any():
            # The game goes on, so the last observation of this episode is the first one of the next.
            given = info.get("final_obs", observation)
            shape = (-1,) + (1,) * (observation.ndim - 1)
            info = {**info, "final_obs": np.where(ended.reshape(shape), given, observation)}
            terminated = terminated | self._lost
        return observation, reward, terminated, truncated, info
