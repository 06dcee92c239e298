"""The unfinished episodes of environments that are stepped elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.base.tree import copy_tree, map_tree, take_rows
from maze_core.envs.parameters import EpisodeParameters
from maze_core.envs.recorded_state import StepLog
from maze_core.envs.spaces import allocate, space_specs

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import Tree
    from maze_core.envs.wrappers import Memory


class EpisodeLog:
    """Records what restoring the unfinished episodes of N environments needs, as `SerialVectorEnv` does itself.

    So they can go on anywhere, also after the process that stepped them was lost.

    Args:
        observation_space: of a single environment, or of a row of one with several agents.
        action_space: the same.
        num_envs: C, the number of environments.
        agents: the number of rows of each, where several agents act; 0: each is one row.
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any], num_envs: int, agents: int = 0) -> None:
        self._agents, self._rows_each = agents, max(1, agents)
        rows = num_envs * self._rows_each
        self._log = StepLog(space_specs(action_space, "action"), rows)
        self.observation = allocate(space_specs(observation_space, "observation"), (rows,))
        """The current observations, leaves [N, …]: of N rows."""
        self._acting = np.zeros(rows, np.bool_)
        """The agents that act next."""
        self._episode, self._length = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.int64)
        self.memory: list[Memory] = [[] for _ in range(num_envs)]
        """What each environment's wrappers remembered when its current episode began."""
        self.parameters = EpisodeParameters(num_envs)
        """The parameters of the episodes."""

    def begin(self) -> None:
        """Forget all steps: new episodes have begun."""
        self._log.clear()

    def place(self, envs: slice, position: dict[str, Any], obs: Tree, memory: list[Memory]) -> None:
        """Say where some environments stand.

        Args:
            envs: their numbers.
            position: `episode` and `length` of the unfinished episodes, `acting` of several agents, and `parameters`
                where these change, as in `state`.
            obs: their current observations.
            memory: what their wrappers remembered when their episodes began.
        """
        self._episode[envs], self._length[envs], self.memory[envs] = position["episode"], position["length"], memory
        self.parameters.now[envs] = position.get("parameters", self.parameters.now[envs])
        self.see(envs, obs, position.get("acting"))

    def see(self, envs: slice, obs: Tree, acting: np.ndarray | None = None) -> None:
        """Take the current observations of some environments, and who acts next, of several agents."""
        rows = slice(envs.start * self._rows_each, envs.stop * self._rows_each)
        for key, leaf in obs.items():
            self.observation[key][rows] = leaf
        if acting is not None:
            self._acting[rows] = acting

    def add(self, actions: Tree, rewards: np.ndarray, ended: np.ndarray) -> None:
        """Take T steps of all environments.

        Args:
            actions: in environment units, leaves [T, N, …]
            rewards: [T, N]
            ended: [T, C], True where a step ended an episode.
        """
        steps = len(rewards)
        self._log.extend(actions, rewards)
        self._length += steps
        if ended.any():
            some = ended.any(0)
            self._episode += ended.sum(0)
            self._length[some] = ended[::-1].argmax(0)[some]
            self._log.keep(int(self._length.max()))
            for env in np.flatnonzero(some).tolist():
                self.parameters.begin(env, env, int(self._episode[env]))

    def state(self) -> dict[str, Any]:
        """Return the unfinished episodes, as `SerialVectorEnv.state` does for the same environments."""
        return {
            "episode": self._episode.copy(),
            "length": self._length.copy(),
            **self._log.recorded(np.repeat(self._length, self._rows_each)),
            "observation": copy_tree(self.observation),
            **({"acting": self._acting.copy()} if self._agents else {}),
            "memory": list(self.memory),
            **self.parameters.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the steps of the result of `state()`; `place` says where the environments stand."""
        self._log.load(state)


def share_of_state(state: dict[str, Any], envs: slice, agent_rows: int = 1) -> dict[str, Any]:
    """Return the part of a recorded state for some environments, cut to their longest episode.

    `agent_rows`: rows of each environment.
    """
    share: dict[str, Any] = {name: state[name][envs] for name in ("episode", "length", "memory")}
    rows = slice(envs.start * agent_rows, envs.stop * agent_rows)
    if "parameters" in state:
        share["parameters"] = state["parameters"][envs]
    if "acting" in state:
        share["acting"] = state["acting"][rows]
    longest = int(max(share["length"], default=0))
    share["actions"] = map_tree(lambda array: array[len(array) - longest :, rows], state["actions"])
    share["rewards"] = state["rewards"][len(state["rewards"]) - longest :, rows]
    share["observation"] = take_rows(state["observation"], rows)
    return share
