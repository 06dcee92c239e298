"""Episodes on disk, as they pass through an environment."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium
import numpy as np
from pydantic import PositiveInt

from maze_core.config.base import PluginConfig
from maze_core.config.outside import Outside
from maze_core.data.trajectories import Trajectory
from maze_core.data.trajectories_writer import TrajectoryWriter
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.vector import Tree
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl
from maze_wrappers.leaves import Env

if TYPE_CHECKING:
    from maze_core.testing import Case, Trial


class RecordConfig(PluginConfig):
    """The parameters of `record`."""

    folder: Annotated[Path, Outside.FOLDER] = Path("recordings")
    """Folder that gets a recording for each environment, numbered."""
    every: PositiveInt = 1
    """Record the first of so many episodes of an environment."""


class Record(Plugin):
    """Record episodes as trajectories, one recording for each environment, training and evaluation alike.

    What is recorded is what passes at the wrapper's place. An episode is written when it ends, so what an interruption
    leaves unfinished is recorded by the resumed run, in a recording of its own.
    """

    Config = RecordConfig

    @classmethod
    def conformance(cls, case: Case) -> Trial:
        """A folder that is thrown away."""
        from maze_core.testing import Trial

        return Trial(parameters={"folder": str(case.folder / "recordings")})

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap."""
        return _Recorded((yield), self.config, index)


class _Recorded(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Env, config: RecordConfig, index: int) -> None:
        super().__init__(env)
        self._config, self._index = config, index
        self._observations, self._actions = ObservationCodec(env.observation_space), ActionCodec(env.action_space)
        self._writer: TrajectoryWriter | None = None
        self._episodes = 0
        self._begin(None)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._begin(seed)
        self._obs.append(_copied(self._observations.tree(observation)))
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._taken.append(_copied(self._actions.tree(action)))
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._rewards.append(float(reward))
        self._obs.append(_copied(self._observations.tree(observation)))
        if terminated or truncated:
            if self._episodes % self._config.every == 0:
                self._write(bool(terminated))
            self._episodes += 1
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        super().close()

    def _begin(self, seed: int | None) -> None:
        self._seed = seed
        self._obs: list[Tree] = []
        self._taken: list[Tree] = []
        self._rewards: list[float] = []

    def _write(self, terminated: bool) -> None:
        if self._writer is None:
            self._writer = self._open()
        self._writer.add(
            Trajectory(
                _stacked(self._obs),
                _stacked(self._taken),
                np.array(self._rewards, np.float32),
                terminated,
                not terminated,
                sum(self._rewards),
                self._seed,
            )
        )

    def _open(self) -> TrajectoryWriter:
        """A recording in the first free number; other environments, in other processes too, look for one as well."""
        source = {"wrapper": "record", "environment": self._index}
        for number in itertools.count():
            folder = self._config.folder / f"{number:04}"
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                continue
            return TrajectoryWriter(folder, self.env.observation_space, self.env.action_space, source)
        raise AssertionError("counting ends nowhere")


def _copied(tree: Tree) -> Tree:
    """Environments may reuse their arrays."""
    return {key: np.array(leaf) for key, leaf in tree.items()}


def _stacked(trees: list[Tree]) -> Tree:
    return {key: np.concatenate([tree[key] for tree in trees]) for key in trees[0]}  # each has a row
