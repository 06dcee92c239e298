"""Stands in for `ale-py`, which is under the GPL and so not required: Pong's id, spaces and forms, and a simple game.

A ball falls, and a paddle that moves left and right has to catch it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

CATCH = 20
"""Steps that a ball falls; an episode has five balls."""


class Pong(gymnasium.Env[Any, Any]):
    """One coloured picture, as `ALE/Pong-v5` has it."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.observation_space = spaces.Box(0, 255, (210, 160, 3), np.uint8)
        self.action_space = spaces.Discrete(6)
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 15}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.paddle = 0, 80
        self.ball = int(self.np_random.integers(150))
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.paddle = int(np.clip(self.paddle + (0, 0, 8, -8, 8, -8)[int(action)], 0, 140))
        self.time += 1
        reward = 0.0
        if self.time % CATCH == 0:
            reward = 1.0 if abs(self.ball - self.paddle) < 20 else -1.0
            self.ball = int(self.np_random.integers(150))
        return self.observe(), reward, self.time >= 5 * CATCH, False, {}

    def observe(self) -> Any:
        picture = np.full((210, 160, 3), (144, 72, 17), np.uint8)
        height = 10 * (self.time % CATCH)
        picture[height : height + 8, self.ball : self.ball + 8] = 236
        picture[202:, self.paddle : self.paddle + 20] = (92, 186, 92)
        return picture

    def render(self) -> Any:
        return self.observe()


class Preprocessed(Pong):
    """Four gray pictures with the channels first, as the vectorised form has them."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (4, 84, 84), np.uint8)

    def observe(self) -> Any:
        gray = super().observe().mean(-1)[::2, ::2][:84, :80]
        return np.stack([np.pad(gray, ((0, 0), (2, 2))).astype(np.uint8)] * 4)


def vectorised(num_envs: int) -> SyncVectorEnv:
    return SyncVectorEnv([Preprocessed] * num_envs)


gymnasium.register("ALE/Pong-v5", Pong, vector_entry_point=vectorised)
