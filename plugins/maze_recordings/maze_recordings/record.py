"""Records the episodes of an environment on disk."""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import numpy as np
from pydantic import PositiveInt

from maze_core import ConfigError, Plugin, PluginConfig, Trajectory, Tree, hookimpl
from maze_core.base.terminal_text import printable
from maze_core.base.tree import concat_trees, copy_tree
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.wrappers import reward_meter
from maze_core.plugins.config.external_fields import Outside
from maze_recordings.recording_files import (
    Description,
    TrajectoryError,
    encode_record,
    read_description,
    read_records,
)
from maze_recordings.writer import TrajectoryWriter, UnfitEpisodeError, encode_episode

Env = gymnasium.Env[Any, Any]


class RecordConfig(PluginConfig):
    """The parameters of `record`."""

    folder: Annotated[Path, Outside.FOLDER] = Path("recordings")
    """Folder for the recordings, one numbered recording per environment."""
    every: PositiveInt = 1
    """Record one of this many episodes, chosen by their seeds; 1 records all."""
    wrapped_rewards: bool = False
    """Record the rewards at the wrapper's place, too, beside those of the environment."""


class Record(Plugin):
    """Record episodes as trajectories, one recording for each environment, training and evaluation alike.

    Observations and actions are those at the wrapper's place, rewards those of the environment. An episode is written
    when it ends; where a wrapper outside goes on without a reset, no episode has what follows. A resumed run begins
    new recordings; an episode that it repeats, and that the folder already contains, is not written again.
    """

    Config = RecordConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int, purpose: str) -> Generator[None, Env, Env]:
        """Wrap the environment, unless it is only tried out: such episodes belong to no policy."""
        _check_writable(self.config.folder)
        env = yield
        return env if purpose == "trial" else _Recorded(env, self.config, index)


def _check_writable(folder: Path) -> None:
    """Raise ConfigError where episodes cannot be written, before the first episode is played."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        reason = "cannot be written" if there.is_dir() else "is not a folder"
        raise ConfigError(f"{printable(there)} {reason}", "folder", "Name a folder you may write to.")


class _Recorded(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Env, config: RecordConfig, index: int) -> None:
        super().__init__(env)
        self._observations, self._actions = ObservationCodec(env.observation_space), ActionCodec(env.action_space)
        source = {"wrapper": "record", "environment": index}
        spaces = env.observation_space, env.action_space
        self._recordings = _Recordings(config.folder, Description(*spaces, source, config.wrapped_rewards))
        meter = reward_meter(env)
        self._raw = None if meter is None else meter.reader()
        self._every, self._episodes = config.every, 0
        self._over = False
        self._begin(None)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._begin(seed)
        if self._raw is not None:
            self._raw.take()  # steps that a wrapper takes in its reset do not count
        self._obs.append(_copied(self._observations.tree(observation)))
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._over:  # a wrapper outside goes on after the end: no episode has these steps
            return self.env.step(action)
        self._taken.append(_copied(self._actions.tree(action)))
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._wrapped.append(float(reward))
        self._rewards.append(float(reward) if self._raw is None else self._raw.take())
        self._obs.append(_copied(self._observations.tree(observation)))
        if terminated or truncated:
            # By seed, so that a resumed run chooses the same episodes.
            number = self._episodes if self._seed is None else self._seed
            if number % self._every == 0:
                self._write(bool(terminated))
            self._episodes += 1
            self._over = True
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        self._recordings.close()
        super().close()

    def _begin(self, seed: int | None) -> None:
        self._seed = seed
        self._over = False
        self._obs: list[Tree] = []
        self._taken: list[Tree] = []
        self._rewards: list[float] = []
        self._wrapped: list[float] = []

    def _write(self, terminated: bool) -> None:
        self._recordings.add(
            Trajectory(
                _stacked(self._obs),
                _stacked(self._taken),
                np.array(self._rewards, np.float32),
                terminated,
                not terminated,
                sum(self._rewards),
                self._seed,
                np.array(self._wrapped, np.float32),
            )
        )


class _Recordings:
    """One environment's recordings in a folder: those of earlier processes, and the current one."""

    def __init__(self, folder: Path, description: Description) -> None:
        self._folder, self._description = folder, description
        self._earlier: set[bytes] | None = None
        """The index lines of this environment's earlier recordings; None before they are read."""
        self._writer: TrajectoryWriter | None = None

    def add(self, trajectory: Trajectory) -> None:
        """Write an episode, unless an earlier recording has it: the same seed, the same rows."""
        if self._earlier is None:
            self._earlier = self._read_earlier()
        if self._earlier and trajectory.seed is not None and self._is_earlier(trajectory):
            return
        if self._writer is None:
            self._writer = self._open()
        self._writer.add(trajectory)

    def _is_earlier(self, trajectory: Trajectory) -> bool:
        """Return True for an episode that an earlier recording has."""
        try:
            _, record = encode_episode(self._description, trajectory)
        except UnfitEpisodeError:
            return False  # the writer says so
        return encode_record(record) in (self._earlier or ())

    def close(self) -> None:
        """Close the recording; safe to call twice."""
        if self._writer is not None:
            self._writer.close()

    def _read_earlier(self) -> set[bytes]:
        lines: set[bytes] = set()
        for folder in self._folder.glob("[0-9]*"):
            # Ignore a recording that another process has just begun, or that is damaged.
            with suppress(TrajectoryError):
                found = read_description(folder)
                if found.source == self._description.source:
                    lines.update(map(encode_record, read_records(folder)))
        return lines

    def _open(self) -> TrajectoryWriter:
        """Return a new recording with the first free number; environments in other processes may create some too."""
        for number in itertools.count():
            folder = self._folder / f"{number:04}"
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                continue
            spaces = self._description.observation_space, self._description.action_space
            about = self._description
            return TrajectoryWriter(folder, *spaces, about.source, wrapped_rewards=about.has_wrapped)
        raise AssertionError("counting ends nowhere")


def _copied(tree: Tree) -> Tree:
    """Return copies: environments may reuse their arrays."""
    return copy_tree(tree)


def _stacked(trees: list[Tree]) -> Tree:
    return concat_trees(trees)  # each has a row
