"""Speed of PPO where environments and networks share a device: `python ours_tensors.py SETTINGS_AS_JSON`.

The environment is gymnasium's CartPole-v1, written with tensors.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import torch
from gymnasium import make, spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from ours import measure
from ours_onpolicy import overrides
from torch import Tensor

from maze_core import Plugin, PluginConfig, hookimpl


class CartPole(VectorEnv[Any, Any, Any]):
    """N poles on carts: observation, action, reward and limits are those of CartPole-v1."""

    def __init__(self, num_envs: int, device: str) -> None:
        single = make("CartPole-v1")
        self.num_envs, self.device = num_envs, torch.device(device)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space, self.single_action_space = single.observation_space, spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Tensor, dict[str, Any]]:
        """Begin an episode everywhere."""
        self._random = torch.Generator(self.device).manual_seed(int(seed or 0) % 2**31)
        self._at, self._length = self._fresh(), torch.zeros(self.num_envs, device=self.device)
        self._over = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        return self._at.clone(), {}

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Push all carts; those whose episode is over begin the next one."""
        _, speed, angle, turning = self._at.unbind(1)
        cosine, sine = angle.cos(), angle.sin()
        push = (actions.float() * 20 - 10 + 0.05 * turning.square() * sine) / 1.1
        turn = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine.square() / 1.1))
        moved = torch.stack((speed, push - 0.05 * turn * cosine / 1.1, turning, turn), 1)
        over = self._over
        self._at = torch.where(over[:, None], self._fresh(), self._at + 0.02 * moved)
        self._length = torch.where(over, 0, self._length + 1)
        fallen = (self._at[:, 0].abs() > 2.4) | (self._at[:, 2].abs() > 12 * math.pi / 180)
        cut = (self._length >= 500) & ~over
        self._over = (fallen & ~over) | cut
        return self._at.clone(), (~over).float(), fallen & ~over, cut, {}

    def _fresh(self) -> Tensor:
        return torch.rand((self.num_envs, 4), generator=self._random, device=self.device) * 0.1 - 0.05


class CartPoleConfig(PluginConfig):
    """Poles on carts."""

    name: str = "poles"
    """The plugin's name."""
    device: str = "cpu"
    """Where they are."""


class Poles(Plugin):
    """The environment source."""

    Config = CartPoleConfig
    config: CartPoleConfig

    @hookimpl
    def make_vector_env(self, config: PluginConfig, num_envs: int, seed: int) -> CartPole:
        """N poles."""
        return CartPole(num_envs, self.config.device)


def main() -> None:
    settings = {**json.loads(sys.argv[1]), "env": Poles}
    more = {**overrides(settings), "env.device": settings.get("device", "cpu")}
    del more["env.vectorization"]
    print(json.dumps(measure(settings, more)))


if __name__ == "__main__":
    main()
