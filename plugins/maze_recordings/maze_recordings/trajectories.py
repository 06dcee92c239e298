"""Recorded trajectories: the data set for BC, SACfD and analysis.

data = load_trajectories(Path("demos"))      # maze_recordings.loader
for episode in data:
    episode.obs["observation"]               # [L + 1, …], the last row being the final observation
    episode.actions["action"]                # [L, …]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from gymnasium import Space

from maze_core import Trajectory, Tree, take_rows
from maze_recordings.recording_files import Description, EpisodeRecord, TrajectoryError


@dataclass(frozen=True, eq=False)
class Trajectories(Sequence[Trajectory]):
    """Recorded episodes: a sequence of trajectories, and their concatenated arrays.

    The arrays of a single recording are memory-mapped, copy on write, and take no memory until they are read.
    """

    description: Description
    episodes: tuple[EpisodeRecord, ...]
    obs: Tree
    """Leaves [sum of L + 1, …]"""
    actions: Tree
    """Leaves [sum of L, …]"""
    rewards: np.ndarray
    """[sum of L] float32; `description.rewards` says which."""
    wrapped_rewards: np.ndarray | None = None
    """[sum of L] float32, the rewards after the wrappers; None if they were not recorded."""

    @property
    def observation_space(self) -> Space[Any]:
        """The observation space of the recorded environment."""
        return self.description.observation_space

    @property
    def action_space(self) -> Space[Any]:
        """The action space of the recorded environment."""
        return self.description.action_space

    @property
    def steps(self) -> int:
        """Number of actions in all episodes."""
        return len(self.rewards)

    @cached_property
    def starts(self) -> np.ndarray:
        """[E + 1], the first action row of each episode, then the number of all. Observations of episode e begin at
        `starts[e] + e`.
        """
        return np.concatenate([[0], np.cumsum([record.length for record in self.episodes])]).astype(np.int64)

    def __len__(self) -> int:
        return len(self.episodes)

    @overload
    def __getitem__(self, index: int) -> Trajectory: ...

    @overload
    def __getitem__(self, index: slice) -> list[Trajectory]: ...

    def __getitem__(self, index: int | slice) -> Trajectory | list[Trajectory]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = range(len(self))[index]
        record, start = self.episodes[index], int(self.starts[index])
        rows, stop = slice(start, start + record.length), start + record.length
        return Trajectory(
            take_rows(self.obs, np.s_[start + index : stop + index + 1]),
            take_rows(self.actions, rows),
            self.rewards[rows],
            record.terminated,
            record.truncated,
            record.episode_return,
            record.seed,
            None if self.wrapped_rewards is None else self.wrapped_rewards[rows],
            record.parameters,
        )

    def observation_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows of `obs` for the action rows `rows`, both [B]."""
        return rows + np.searchsorted(self.starts, rows, side="right") - 1

    def check_fits(self, observation_space: Space[Any], action_space: Space[Any], where: str) -> None:
        """Check that the recorded spaces are those of an environment.

        Raises:
            TrajectoryError: they differ; names the source `where` and both spaces.
        """
        for role, ours in (("observation", observation_space), ("action", action_space)):
            theirs = self.observation_space if role == "observation" else self.action_space
            if theirs != ours:
                raise TrajectoryError(
                    f"{where} was recorded with the {role} space {_on_a_line(theirs)}; here it is {_on_a_line(ours)}\n"
                    "Next: name the environment of the recording, with the wrappers that it had"
                )


def _on_a_line(space: Space[Any]) -> str:
    """Return a space's text without the line breaks and columns of long arrays."""
    return " ".join(str(space).split())
