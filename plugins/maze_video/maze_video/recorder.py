"""A studio that films environments with imageio."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from maze_actors.agents import MultiAgentEnv, Round, WrappedAgents
from maze_environments.pictures import as_rgb, pictures_per_second

from maze_core import ConfigError
from maze_core.base.blame import blame
from maze_core.base.foreign_settings import variables_set
from maze_core.envs.interfaces import agents
from maze_core.envs.serial import SerialVectorEnv
from maze_core.plugins.closing import releasing
from maze_core.plugins.discovery import describe

if TYPE_CHECKING:
    from maze_core import EnvBuilder, VectorEnv


_USUAL = 30
"""Pictures per second of environments that name no number."""


class _Reel:
    """The film of an episode: begins with the next reset after `film`, and ends with the episode."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._writer: Any = None

    def film(self, path: Path) -> None:
        """Film the episode that begins with the next reset."""
        self.cut()
        self._path = path

    def begin(self, pictures_per_second: int) -> None:
        """End the last film; begin the next one, if there is one to film."""
        self.cut()
        if self._path is not None:
            self._writer = _imageio().get_writer(self._path, fps=pictures_per_second, macro_block_size=2)
            self._path = None

    def shoot(self, env: gymnasium.Env[Any, Any] | MultiAgentEnv) -> None:
        """Add a picture, while something is filmed."""
        if self._writer is not None:
            with _without_devices():
                picture = as_rgb(env.render())
            height, width = picture.shape[:2]
            # The encoder takes even sizes only, and would warn before it scales.
            self._writer.append_data(picture[: height - height % 2, : width - width % 2])

    def cut(self) -> None:
        """End the film."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


class _Camera(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Films episodes of an environment."""

    def __init__(self, env: gymnasium.Env[Any, Any], reel: _Reel) -> None:
        super().__init__(env)
        self._reel = reel

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._reel.begin(pictures_per_second(self.env, _USUAL))
        self._reel.shoot(self.env)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._reel.shoot(self.env)
        if terminated or truncated:
            self._reel.cut()
        return observation, reward, bool(terminated), bool(truncated), info

    def close(self) -> None:
        self._reel.cut()
        super().close()


class _AgentsCamera(WrappedAgents):
    """Films episodes of an environment with several agents."""

    def __init__(self, env: MultiAgentEnv, reel: _Reel) -> None:
        super().__init__(env)
        self._reel = reel

    def reset(self, seed: int) -> Round:
        outcome = super().reset(seed)
        self._reel.begin(self.pictures_per_second)
        self._reel.shoot(self.env)
        return outcome

    def step(self, actions: Mapping[str, Any]) -> Round:
        outcome = super().step(actions)
        self._reel.shoot(self.env)
        if not outcome.acting:
            self._reel.cut()
        return outcome

    def close(self) -> None:
        self._reel.cut()
        super().close()


class FilmRecorder:
    """Films environments that are stepped in turn; `maze_recordings.films.open_recorder` returns it.

    Raises:
        ConfigError: the environment cannot render, or the video libraries are not installed.
    """

    def __init__(self, builder: EnvBuilder, folder: Path) -> None:
        _imageio()
        kwargs = {**getattr(builder.env, "kwargs", {}), "render_mode": "rgb_array"}
        self._builder = replace(builder, env=builder.env.model_copy(update={"kwargs": kwargs}))
        self._folder = folder
        self._reels: list[_Reel] = []

    def vector_env(self, num_envs: int) -> VectorEnv:
        """Build environments, each with a camera. The caller closes them."""
        self._try_out()
        self._reels = [_Reel() for _ in range(num_envs)]
        builder, reels = self._builder, self._reels
        env: VectorEnv
        if builder.several_agents:
            made = [_AgentsCamera(builder.agents_env(index), reel) for index, reel in enumerate(reels)]
            env = agents(made.__getitem__, num_envs, agent_ids=builder.agent_ids)
        else:
            env = SerialVectorEnv(lambda index: _Camera(builder(index), reels[index]), num_envs)
        self._folder.mkdir(parents=True, exist_ok=True)
        return env

    def film(self, first: int, count: int) -> None:
        """Film the next episode of the first `count` environments, as episodes `first`, `first + 1`, …."""
        for number, reel in enumerate(self._reels[:count], first):
            reel.film(self.path(number))

    def path(self, number: int) -> Path:
        """Return the file of an episode."""
        return self._folder / f"episode-{number}.mp4"

    def _try_out(self) -> None:
        """Render one frame of a temporary environment."""
        title = str(getattr(self._builder.env, "id", "") or "the environment")
        try:
            with _without_devices(), warnings.catch_warnings(action="ignore"):
                self._picture(title)
        except ConfigError as error:
            if error.where != "env.kwargs" or not re.search(r"'render_mode'|takes no arguments", str(error)):
                raise
            raise _cannot_render(title, "it takes no render_mode") from None
        except ValueError as error:
            raise _cannot_render(title, describe(error) if blame(error) else str(error)) from error
        except Exception as error:
            raise _cannot_render(title, describe(error)) from error

    def _picture(self, title: str) -> np.ndarray:
        """Return the first picture of an episode."""
        if self._builder.several_agents:
            with releasing(self._builder.agents_env(0)) as agents:
                agents.reset(0)
                return as_rgb(agents.render())
        with releasing(self._builder(0)) as env:
            if env.render_mode != "rgb_array":
                raise _cannot_render(title, "it does not support render_mode rgb_array")
            env.reset(seed=0)
            return as_rgb(env.render())


def _without_devices() -> AbstractContextManager[None]:
    """Let SDL, with which many environments draw, open neither a window nor a sound card, unless the user chose one.

    On a machine without them it would print errors.
    """
    quiet = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    return variables_set({name: value for name, value in quiet.items() if name not in os.environ})


def _cannot_render(title: str, reason: str) -> ConfigError:
    return ConfigError(
        f"{title} cannot render images: {reason}",
        "--video",
        "Leave out --video; or let the environment accept render_mode, name rgb_array in metadata['render_modes'], and"
        " return pictures from render().",
    )


def _imageio() -> Any:
    try:
        import imageio.v2 as imageio
    except ImportError as error:
        raise ConfigError("recording needs imageio", "--video", "Next: pip install imageio imageio-ffmpeg") from error
    return imageio
