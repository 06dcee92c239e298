"""Vectorised environments with tensors, of every autoreset mode that steps may stay on the device in."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from maze_core import hookimpl
from maze_core.plugins.config.base import PluginConfig


class DriftConfig(PluginConfig):
    """Points that drift."""

    mode: str = "NextStep"
    arrays: bool = False
    """Return arrays instead of tensors."""
    device: str | None = "cpu"
    limit: int = 7
    """Steps after which an episode is cut."""
    spoil: str = ""
    """What goes wrong after a while."""


class Drift(VectorEnv[Any, Any, Any]):
    """N points on a line: an action pushes one to the left or right; outside of [-1, 1] its episode ends."""

    def __init__(self, num_envs: int, config: DriftConfig) -> None:
        self.num_envs, self.config, self.device = num_envs, config, config.device
        self.metadata = {"autoreset_mode": AutoresetMode(config.mode)}
        place = spaces.Box(-10, 10, (2,))
        self.single_observation_space = spaces.Dict({"place": place, "phase": spaces.Discrete(3, start=1)})
        self.single_action_space = spaces.Dict({"push": spaces.Box(-1, 1, (1,)), "turn": spaces.Discrete(2, start=-1)})
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self.steps_taken = 0

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Put all points near the middle."""
        self.random = torch.Generator().manual_seed(int(seed or 0) % 2**31)
        self.at, self.length = self._fresh(), torch.zeros(self.num_envs, dtype=torch.int64)
        self.over = torch.zeros(self.num_envs, dtype=torch.bool)
        return self._given(self._seen()), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Push all points; begin the next episode of those that ended, in this step or in the next one."""
        self.steps_taken += 1
        pushed = torch.as_tensor(actions["push"])[:, 0] + 0.3 * torch.as_tensor(actions["turn"])
        speed = 0.3 * pushed
        self.at, self.length = self.at + speed, self.length + 1
        reward = 1 - self.at.square() + 0.01 * pushed
        terminated, truncated = self.at.abs() > 1, self.length >= self.config.limit
        info: dict[str, Any] = {}
        if AutoresetMode(self.config.mode) is AutoresetMode.SAME_STEP:
            info["final_obs"] = self._given(self._seen())
            self._begin(terminated | truncated)
        else:
            self._begin(self.over)
            reward, terminated, truncated = reward * ~self.over, terminated & ~self.over, truncated & ~self.over
            self.over = terminated | truncated
        return self._spoilt(self._seen(), reward, terminated, truncated, info)

    def _fresh(self) -> torch.Tensor:
        return torch.rand(self.num_envs, generator=self.random) - 0.5

    def _begin(self, rows: torch.Tensor) -> None:
        self.at = torch.where(rows, self._fresh(), self.at)
        self.length = torch.where(rows, 0, self.length)

    def _seen(self) -> dict[str, torch.Tensor]:
        return {"place": torch.stack([self.at, self.length / 10], 1), "phase": 1 + self.length % 3}

    def _given(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._given(each) for key, each in value.items()}
        return value.numpy() if self.config.arrays and isinstance(value, torch.Tensor) else value

    def _spoilt(self, obs: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        if self.steps_taken > 11:
            match self.config.spoil:
                case "reward":
                    reward = torch.where(torch.arange(self.num_envs) == 1, torch.nan, reward)
                case "observation":
                    obs["place"][2, 1] = torch.inf
                case "phase":
                    obs["phase"][0] = 4
                case "shape":
                    obs["place"] = obs["place"][:, :1]
                case "kind":
                    obs["phase"] = obs["phase"].float()
                case "flags":
                    terminated = terminated[:, None]
                case "final":
                    info = {}
                case "array":
                    reward = reward.numpy()
                case "raise":
                    raise ValueError("the belt is torn")
        return tuple(map(self._given, (obs, reward, terminated, truncated, info)))


class DriftSource:
    """The environment source."""

    Config = DriftConfig

    def __init__(self, config: DriftConfig) -> None:
        self.config = config

    @hookimpl
    def make_vector_env(self, config: PluginConfig, num_envs: int, seed: int, purpose: str) -> Any:
        """Build N points."""
        return Drift(num_envs, self.config)
