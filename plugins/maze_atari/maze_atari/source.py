"""The env source `atari`."""

from __future__ import annotations

import difflib
import importlib
from typing import Any, ClassVar

import gymnasium
import numpy as np

from maze_atari.config import AtariConfig
from maze_core import ConfigError, Plugin, PluginConfig, hookimpl
from maze_core.base.terminal_text import shown
from maze_core.envs.wrappers import VectorRewardMeter

VectorEnv = gymnasium.vector.VectorEnv[Any, Any, Any]


class AtariSource(Plugin):
    """Atari games, gray, resized and stacked by ALE's own vectorised environment: uint8 [stack, height, width].

    Raises:
        ConfigError: ale-py is not installed, or it has no such game.
    """

    Config: ClassVar[type[PluginConfig]] = AtariConfig

    @hookimpl
    def make_vector_env(self, config: AtariConfig, num_envs: int, seed: int, purpose: str) -> VectorEnv:
        """Build the games. Only those of training end with a life and clip rewards."""
        game = _game(config.id)
        from maze_atari.games import Games, Lives

        env: VectorEnv = Games(game, num_envs, config)
        training = purpose == "training"
        env = Lives(env, fire=config.fire, ends=training and config.life_loss)
        if not (training and config.clip_rewards):
            return env
        # gymnasium's ClipReward writes into the array of rewards, which the meter keeps.
        return gymnasium.wrappers.vector.TransformReward(VectorRewardMeter(env), lambda reward: np.clip(reward, -1, 1))

    @staticmethod
    def knows(env_id: str) -> bool:
        """Return True for ids such as `ALE/Pong-v5`; `ale_py:ALE/Pong-v5` is the game without preprocessing."""
        return env_id.startswith("ALE/")

    @staticmethod
    def environments() -> list[str]:
        """Return the ids of all games; empty where ale-py is not installed."""
        try:
            return sorted(_games())
        except ConfigError:
            return []


def _game(env_id: str) -> str:
    """Return the name of a game's file."""
    known = _games()
    if env_id in known:
        return known[env_id]
    bare = env_id.rpartition(":")[2].removeprefix("ALE/").partition("-")[0]
    near = difflib.get_close_matches(f"ALE/{bare}-v5", known, n=2, cutoff=0.8)
    hint = f"Did you mean {' or '.join(near)}?" if near else "`maze envs list atari` lists the games."
    raise ConfigError(f"there is no game {shown(env_id)}", "env.id", hint)


def _games() -> dict[str, str]:
    """Return the names of ALE's files by id."""
    try:
        importlib.import_module("ale_py")  # registers the games
    except ImportError as error:
        raise ConfigError(
            f"Atari games need ale-py: {error}", "env.name", 'Install it: pip install "ale-py>=0.12,<0.13"'
        ) from error
    specs = [spec for spec in gymnasium.registry.values() if spec.vector_entry_point == _ENTRY_POINT]
    return {spec.id: spec.kwargs["game"] for spec in specs}


_ENTRY_POINT = "ale_py.vector_env:AtariVectorEnv"
