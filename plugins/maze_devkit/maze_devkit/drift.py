"""A vectorised environment whose arrays are tensors, or NumPy's: both trains have to be the same."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import gymnasium
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from maze_core import Plugin, PluginConfig, hookimpl

_PUSH, _TURN = spaces.Box(-1, 1, (1,)), spaces.Discrete(2, start=-1)
_ACTIONS = {"both": spaces.Dict({"push": _PUSH, "turn": _TURN}), "push": _PUSH, "turn": _TURN}


class DriftConfig(PluginConfig):
    """Points on a line that drift."""

    name: str = "drift"
    """The plugin's name."""
    actions: Literal["both", "push", "turn"] = "both"
    """What an agent does: push by a number, take a turn, or both."""
    mode: Literal["NextStep", "SameStep", "Disabled"] = "NextStep"
    """The autoreset mode."""
    arrays: bool = False
    """Give arrays instead of tensors."""
    limit: int = 7
    """Steps after which an episode is cut."""


class Drift(VectorEnv[Any, Any, Any]):
    """N points on a line: an action moves one to the left or right; outside of [-1, 1] its episode ends.

    Observation: position and steps as numbers, and the steps modulo 3. Reward: more near the middle.
    """

    def __init__(self, num_envs: int, config: DriftConfig) -> None:
        self.num_envs, self._config = num_envs, config
        self.device = None if config.arrays else torch.device("cpu")
        self.metadata = {"autoreset_mode": AutoresetMode(config.mode)}
        place = spaces.Box(-10, 10, (2,))
        self.single_observation_space = spaces.Dict({"place": place, "phase": spaces.Discrete(3, start=1)})
        self.single_action_space = _ACTIONS[config.actions]
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Put points near the middle: all, or those of a mask."""
        if options is not None:
            self._begin(torch.as_tensor(options["reset_mask"]))
            return self._given((self._seen(), {}))
        self._random = torch.Generator().manual_seed(int(seed or 0) % 2**31)
        self._at, self._length = self._fresh(), torch.zeros(self.num_envs, dtype=torch.int64)
        self._over = torch.zeros(self.num_envs, dtype=torch.bool)
        return self._given((self._seen(), {}))

    def step(self, actions: Any) -> Any:
        """Move all points; begin the next episode of those that ended as the mode says."""
        moved = self._moves(actions)
        self._at, self._length = self._at + 0.3 * moved, self._length + 1
        reward = 1 - self._at.square() + 0.01 * moved
        terminated, truncated = self._at.abs() > 1, self._length >= self._config.limit
        info: dict[str, Any] = {}
        if self._config.mode == "SameStep":
            info["final_obs"] = self._seen()
            self._begin(terminated | truncated)
        elif self._config.mode == "NextStep":
            self._begin(self._over)
            reward, terminated, truncated = reward * ~self._over, terminated & ~self._over, truncated & ~self._over
            self._over = terminated | truncated
        return self._given((self._seen(), reward, terminated, truncated, info))

    def _moves(self, actions: Any) -> torch.Tensor:
        parts = actions if isinstance(actions, dict) else {self._config.actions: actions}
        if any(isinstance(part, torch.Tensor) == self._config.arrays for part in parts.values()):
            raise TypeError("actions are tensors where observations are, and arrays elsewhere")
        moved = torch.zeros(self.num_envs)
        for name, part in parts.items():
            moved = moved + (torch.as_tensor(part)[:, 0] if name == "push" else 0.3 * torch.as_tensor(part))
        return moved

    def _fresh(self) -> torch.Tensor:
        return torch.rand(self.num_envs, generator=self._random) - 0.5

    def _begin(self, rows: torch.Tensor) -> None:
        self._at = torch.where(rows, self._fresh(), self._at)
        self._length = torch.where(rows, 0, self._length)

    def _seen(self) -> dict[str, torch.Tensor]:
        return {"place": torch.stack([self._at, self._length / 10], 1), "phase": 1 + self._length % 3}

    def _given(self, value: Any) -> Any:
        """Return nested tensors as they are, or as arrays."""
        if isinstance(value, dict):
            return {key: self._given(each) for key, each in value.items()}
        if isinstance(value, tuple):
            return tuple(map(self._given, value))
        return value.numpy() if self._config.arrays and isinstance(value, torch.Tensor) else value


class DriftSource(Plugin):
    """The environment source."""

    Config: ClassVar[type[PluginConfig]] = DriftConfig
    config: DriftConfig

    @hookimpl
    def make_vector_env(self, config: PluginConfig, num_envs: int, seed: int) -> VectorEnv[Any, Any, Any]:
        """Build N points."""
        return Drift(num_envs, self.config)
