"""Plays episodes with a run's policy and takes pictures where the environment renders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import gymnasium
from maze_environments.pictures import as_rgb
from maze_recordings.episode_recorder import play

from maze_core import ConfigError
from maze_core.base.blame import blame
from maze_core.base.foreign_settings import variables_set
from maze_core.base.process_state import torch_threads
from maze_core.envs.events import events_of
from maze_core.envs.serial import SerialVectorEnv
from maze_core.plugins.closing import releasing
from maze_core.plugins.discovery import describe
from maze_view.pictures import Film

if TYPE_CHECKING:
    from maze_recordings.rollouts import RolloutTask

    from maze_core import EnvBuilder, Trajectory


Heard = tuple[int, str, float, str | None]
"""Step, name, value and actor of an event."""


class Camera(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes pictures of the episode that begins with the next reset after `watch`, and keeps its events."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._next: Film | None = None
        self._film: Film | None = None
        self._steps = 0
        self._next_heard: list[Heard] = []
        self._heard: list[Heard] = []
        for events in events_of(env):
            events.listener = self._hear

    def watch(self, film: Film | None, heard: list[Heard]) -> None:
        """Use this film for the next episode, and append its events to this list."""
        self._next, self._film, self._next_heard = film, None, heard

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, and its film if one is wanted."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._film, self._next, self._steps = self._next, None, 0
        self._heard, self._next_heard = self._next_heard, []
        self._shoot(last=False)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and take a picture."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        self._shoot(last=bool(terminated or truncated))
        return observation, reward, bool(terminated), bool(truncated), info

    def _hear(self, name: str, value: float, actor: str | None) -> None:
        self._heard.append((self._steps, name, value, actor))

    def _shoot(self, *, last: bool) -> None:
        if self._film is not None and (last or self._film.wants(self._steps)):
            with _without_devices():
                picture = as_rgb(self.env.render())
            self._film.add(self._steps, picture, last=last)


@dataclass(frozen=True, slots=True)
class Played:
    """An episode."""

    trajectory: Trajectory
    film: Film | None
    problem: str
    """Why there is no film."""
    events: list[Heard]


def played(task: RolloutTask, episodes: int, frames: int) -> Iterator[Played]:
    """Play episodes 0 … episodes - 1 as `maze rollout` does.

    Args:
        task: how the policy plays, as `task_of_run` returns it.
        episodes: number of episodes.
        frames: most pictures of an episode; 0: none.

    Raises:
        ConfigError: several agents act in the environment, or it cannot be built.
    """
    if task.builder.several_agents:
        raise ConfigError(
            "several agents act in this environment, and the player shows one",
            hint="Next: maze rollout RUN --record DIR, then maze view DIR; or maze eval RUN --video DIR",
        )
    builder, problem = _rendering(task.builder) if frames else (task.builder, "")
    cameras: list[Camera] = []

    def build(index: int) -> gymnasium.Env[Any, Any]:
        cameras.append(Camera(builder(index)))
        return cameras[-1]

    with torch_threads(1), closing(SerialVectorEnv(build, 1)) as env:
        agent_of, planning = task.player(env.observation_space, env.action_space), task.player.planning(task.builder)
        for number in range(episodes):
            film = None if problem or not frames else Film(frames)
            heard: list[Heard] = []
            cameras[-1].watch(film, heard)
            memory = task.memory or env.memory()
            for each in play(env, agent_of, task.seed, number, 1, lambda: False, memory, planning):
                yield Played(each.trajectories[0], film, problem, heard)


def _rendering(builder: EnvBuilder) -> tuple[EnvBuilder, str]:
    """Return a builder of environments that render pictures; the builder itself and the reason if they cannot."""
    able = builder
    if "kwargs" in type(builder.env).model_fields:
        kwargs = {**getattr(builder.env, "kwargs", {}), "render_mode": "rgb_array"}
        able = replace(builder, env=builder.env.model_copy(update={"kwargs": kwargs}))
    try:
        with _without_devices(), releasing(able(0)) as env:
            if env.render_mode != "rgb_array":
                return builder, "the environment does not support render_mode rgb_array"
            env.reset(seed=0)
            as_rgb(env.render())
    except ValueError as error:
        return builder, describe(error) if blame(error) else str(error)
    except Exception as error:  # noqa: BLE001 — whatever an environment's drawing code raises
        return builder, " ".join(describe(error).split())
    return able, ""


def _without_devices() -> AbstractContextManager[None]:
    """Let SDL, with which many environments draw, open neither a window nor a sound card, unless the user chose one."""
    quiet = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    return variables_set({name: value for name, value in quiet.items() if name not in os.environ})
