"""Replay where several agents act: a step ends when its agent acts again, or when its part of the episode does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.data.replay import ReplayBuffer
from maze_core.errors import ConfigError
from maze_core.tree import copy_tree, take_rows

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.envs.vector import StepResult
    from maze_core.tree import Tree

_NONE = -1


class LaneReplay(ReplayBuffer):
    """The newest `capacity` rows of N lanes.

    A row is written when its lane acts. Until the lane acts again or ends, the step is open: the rewards of that time
    are added to it, and it is not sampled. So the rows of lanes that wait lie among finished ones. An open step that is
    older than `capacity` rows is overwritten, as all such rows are.

    Args:
        observation_space: of a row.
        action_space: of a row.
        capacity: number of rows.
        lanes: N.
        where: the setting that an error about the capacity names.
        priority_exponent: as for `ReplayBuffer`.

    Raises:
        ConfigError: as for `ReplayBuffer`, or there are fewer than eight rows for each lane.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        capacity: int,
        lanes: int,
        where: str = "",
        priority_exponent: float | None = None,
    ) -> None:
        if capacity < 8 * lanes:
            raise ConfigError(f"must be at least {8 * lanes} where {lanes} agents act, in all environments", where)
        super().__init__(observation_space, action_space, capacity, where, priority_exponent)
        self._opened = np.full(lanes, _NONE, np.int64)
        """The number of each lane's open row."""
        self._current: Tree = {}
        """The current observations, leaves [N, …]."""

    def begin(self, obs: Tree) -> None:
        """Go on from the current observations of all lanes (leaves [N, …])."""
        self._current = copy_tree(obs)

    def step(self, actions: Tree, result: StepResult, obs: Tree) -> None:
        """Take one step of all lanes; arguments as for `ReplayBuffer.step`."""
        self._act(np.flatnonzero(result.valid), actions)
        paid = np.flatnonzero((self._opened != _NONE) & (result.reward != 0))
        self._reward[self._opened[paid] % self.capacity] += result.reward[paid]
        if len(result.final_indices) and result.final_obs is not None:
            self._end(result, result.final_obs)
        there = self._opened[self._opened != _NONE]
        self.open = self.rows - int(there.min()) if len(there) else 0
        for key, leaf in self._current.items():
            leaf[...] = obs[key]

    def _append(self, obs: Tree, count: int, before: np.ndarray | None = None) -> None:
        super()._append(obs, count, before)
        self._opened[self._opened < self.rows - self.capacity] = _NONE

    def _act(self, acted: np.ndarray, actions: Tree) -> None:
        """Write a row for each lane that acted, and close the lane's last step with it."""
        numbers = self.rows + np.arange(len(acted))
        self._append(take_rows(self._current, acted), len(acted))
        self._close(acted, numbers)
        slots = numbers % self.capacity
        for key, column in self._actions.items():
            column[slots] = actions[key][acted]
        self._reward[slots], self._terminated[slots], self._truncated[slots] = 0, False, False
        self._opened[acted] = numbers

    def _end(self, result: StepResult, final_obs: Tree) -> None:
        """Close the steps of lanes that ended with their last observations; lanes that never acted have none."""
        places = np.flatnonzero(self._opened[result.final_indices] != _NONE)
        lanes = result.final_indices[places]
        slots = self._opened[lanes] % self.capacity
        self._terminated[slots], self._truncated[slots] = result.terminated[lanes], result.truncated[lanes]
        numbers = self.rows + np.arange(len(lanes))
        self._append(take_rows(final_obs, places), len(lanes))
        self._close(lanes, numbers)
        self._opened[lanes] = _NONE

    def _close(self, lanes: np.ndarray, following: np.ndarray) -> None:
        """End the open steps of lanes; `following`: the rows with the observations after them."""
        opened = self._opened[lanes]
        there = opened != _NONE
        slots = opened[there] % self.capacity
        self._ahead[slots] = following[there] - opened[there]
        self._prioritize(slots)
        self.steps += len(slots)

    # Saving

    def open_state(self) -> dict[str, Any]:
        """Return the rows that are not settled, and which of them are open."""
        first, priorities = self.settled, self.priorities
        slots = (first + np.arange(self.open)) % self.capacity
        return {
            "first": first,
            "rows": self.read(first, self.open),
            "opened": self._opened.copy(),
            "priorities": None if priorities is None else priorities[slots],
        }

    def load_open_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `open_state()`, after the settled rows."""
        self.restore(state["first"], state["rows"])
        self._opened[:] = state["opened"]
        self.open = self.rows - state["first"]
        if self.priorities is not None and state["priorities"] is not None:
            slots = (state["first"] + np.arange(self.open)) % self.capacity
            self.priorities.restore(slots, state["priorities"])
