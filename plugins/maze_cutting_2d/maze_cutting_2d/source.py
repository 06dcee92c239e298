"""The env source `cutting_2d`."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium

from maze_core import Plugin, PluginConfig, hookimpl
from maze_cutting_2d.config import CuttingConfig


class CuttingSource(Plugin):
    """Two-dimensional cutting: serve orders from as few sheets as possible, by guillotine cuts."""

    Config: ClassVar[type[PluginConfig]] = CuttingConfig

    @hookimpl
    def make_env(self, config: CuttingConfig, seed: int, index: int) -> gymnasium.Env[Any, Any]:
        """Build one environment."""
        from maze_cutting_2d.flat import Cutting
        from maze_cutting_2d.turns import CuttingInTurns

        shop = CuttingInTurns if config.form.startswith("structured") else Cutting
        env: gymnasium.Env[Any, Any] = shop(config, render_mode="rgb_array")
        limit = config.max_episode_steps
        return env if limit is None else gymnasium.wrappers.TimeLimit(env, limit)
