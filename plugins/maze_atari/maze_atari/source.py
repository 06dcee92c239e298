"""The env source `atari`."""

from __future__ import annotations

import difflib
import importlib
from typing import Annotated, Any, ClassVar

import gymnasium
import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from maze_core import ConfigError, Plugin, PluginConfig, hookimpl
from maze_core.envs.wrapper_memory import VectorRewardMeter
from maze_core.terminal_text import shown

VectorEnv = gymnasium.vector.VectorEnv[Any, Any, Any]
Side = Annotated[int, Field(ge=36, le=1000)]


class AtariConfig(PluginConfig):
    """The parameters of `atari`."""

    id: str = Field(min_length=1)
    """The game, such as `ALE/Pong-v5`."""
    clip_rewards: bool = True
    """Learn from rewards -1, 0 and 1. Reported returns are the game's own."""
    life_loss: bool = True
    """In training, a lost life ends the episode, and the game goes on in the next one. Evaluations play whole games."""
    sticky_actions: float = Field(default=0.25, ge=0, lt=1)
    """Probability that a frame repeats the last action instead."""
    first_frames: NonNegativeInt = 30
    """Most steps without an action at the beginning of a game; their number is random."""
    fire: bool = True
    """Press FIRE at the beginning of a game and after a lost life, in games that have it: some wait for it."""
    frame_skip: PositiveInt = 4
    """Frames that an action lasts. The observation is the brighter of the last two frames, pixel by pixel."""
    stack: PositiveInt = 4
    """Observations stacked along the first axis, the newest last."""
    height: Side = 84
    """Height in pixels."""
    width: Side = 84
    """Width in pixels."""
    all_actions: bool = False
    """All 18 actions of the joystick, instead of those that the game uses."""
    max_frames: PositiveInt = 108_000
    """Frames after which a game is truncated: 30 minutes."""
    threads: NonNegativeInt = 0
    """Threads that step the games; 0: ALE chooses."""


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
            f"Atari games need ale-py: {error}", "env.name", 'Install it: pip install "maze-atari[ale]"'
        ) from error
    specs = [spec for spec in gymnasium.registry.values() if spec.vector_entry_point == _ENTRY_POINT]
    return {spec.id: spec.kwargs["game"] for spec in specs}


_ENTRY_POINT = "ale_py.vector_env:AtariVectorEnv"
