"""The parameters of the env source `atari`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt

from maze_core import PluginConfig

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
    max_episode_steps: PositiveInt | None = None
    """Steps of `frame_skip` frames after which a game is truncated, if that is earlier; none: `max_frames` decides."""
    threads: NonNegativeInt = 0
    """Threads that step the games; 0: ALE chooses."""

    @property
    def frames(self) -> int:
        """Frames after which a game is truncated."""
        steps = self.max_episode_steps
        return self.max_frames if steps is None else min(self.max_frames, steps * self.frame_skip)
