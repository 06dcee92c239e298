"""The unfinished episodes of environments that are stepped elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.base.tree import copy_tree
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.step_log import StepLog

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.base.tree import Tree
    from maze_core.envs.wrappers.carry import Memory


class EpisodeLog:
    """Records what restoring the unfinished episodes of N environments needs, as `SerialVectorEnv` does itself.

    So they can go on anywhere, also after the process that stepped them was lost.

    Args:
        observation_space: of a single environment.
        action_space: of a single environment.
        num_envs: N.
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any], num_envs: int) -> None:
        self._log = StepLog(space_specs(action_space, "action"), num_envs)
        self.observation = allocate(space_specs(observation_space, "observation"), (num_envs,))
        """The current observations, leaves [N, …]."""
        self._episode, self._length = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.int64)
        self.memory: list[Memory] = [[] for _ in range(num_envs)]
        """What each environment's wrappers remembered when its current episode began."""

    def begin(self) -> None:
        """Forget all steps: new episodes have begun."""
        self._log.clear()

    def place(self, rows: slice, episode: np.ndarray, length: np.ndarray, obs: Tree, memory: list[Memory]) -> None:
        """Say where some environments stand."""
        self._episode[rows], self._length[rows], self.memory[rows] = episode, length, memory
        self.see(rows, obs)

    def see(self, rows: slice, obs: Tree) -> None:
        """Take the current observations of some environments, leaves [n, …]."""
        for key, leaf in obs.items():
            self.observation[key][rows] = leaf

    def add(self, actions: Tree, rewards: np.ndarray, ended: np.ndarray) -> None:
        """Take T steps of all environments.

        Args:
            actions: in environment units, leaves [T, N, …]
            rewards: [T, N]
            ended: [T, N], True where a step ended an episode.
        """
        steps = len(rewards)
        self._log.extend(actions, rewards)
        self._length += steps
        if ended.any():
            some = ended.any(0)
            self._episode += ended.sum(0)
            self._length[some] = ended[::-1].argmax(0)[some]
            self._log.keep(int(self._length.max()))

    def state(self) -> dict[str, Any]:
        """Return the unfinished episodes, as `SerialVectorEnv.state` does for the same environments."""
        return {
            "episode": self._episode.copy(),
            "length": self._length.copy(),
            **self._log.recorded(self._length),
            "observation": copy_tree(self.observation),
            "memory": list(self.memory),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the steps of the result of `state()`; `place` says where the environments stand."""
        self._log.load(state)
