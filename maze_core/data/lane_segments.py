"""Segments of several agents: a lane's steps follow each other, whatever the others do in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maze_core.data.segment_replay import SegmentReplay
from maze_core.tree import copy_tree, take_rows

if TYPE_CHECKING:
    from maze_core.envs.vector import StepResult
    from maze_core.tree import Tree


class LaneSegments(SegmentReplay):
    """The newest segments of N lanes, each of which has the steps of its agent in one part of an episode.

    A step begins when its lane acts. Until the lane acts again or ends, rewards are added to it, and its segment is not
    complete. Rows of lanes that wait are left out. Arguments as for `SegmentReplay`, of a row.
    """

    def begin(self, obs: Tree) -> None:
        """Go on from the current observations of all lanes, leaves [N, …]; at the first call, begin episodes."""
        if self._open is None:
            super().begin(obs)
        self._current = copy_tree(obs)

    def step(self, actions: Tree, result: StepResult, obs: Tree) -> None:
        """Take one step of all lanes; arguments as for `SegmentReplay.step`."""
        opened = self._opened()
        self._act(opened, np.flatnonzero(result.valid), actions)
        paid = np.flatnonzero((opened["steps"] > 0) & (result.reward != 0))
        opened["reward"][paid, opened["steps"][paid] - 1] += result.reward[paid]
        if len(result.final_indices) and result.final_obs is not None:
            self._end(opened, result, result.final_obs)
        if begun := result.begun:
            self.restart(begun, obs)
        self.steps += result.steps
        for key, leaf in self._current.items():
            leaf[...] = obs[key]

    def _act(self, opened: Tree, lanes: np.ndarray, actions: Tree) -> None:
        """Begin a step of each lane that acted. What it acted on follows its last step, which is complete now."""
        self._see(opened, lanes, take_rows(self._current, lanes))
        full = lanes[opened["steps"][lanes] == self.length]
        self._close(full, np.zeros(len(opened["steps"]), bool))
        at = opened["steps"][lanes]
        for key, leaf in actions.items():
            opened[f"action/{key}"][lanes, at] = leaf[lanes]
        opened["reward"][lanes, at], opened["terminated"][lanes] = 0, False
        opened["steps"][lanes] += 1

    def _end(self, opened: Tree, result: StepResult, final_obs: Tree) -> None:
        """Complete the segments of lanes that ended with their last observations; lanes that never acted have none."""
        places = np.flatnonzero(opened["steps"][result.final_indices] > 0)
        lanes = result.final_indices[places]
        self._see(opened, lanes, take_rows(final_obs, places))
        opened["terminated"][lanes] = result.terminated[lanes]
        self._close(lanes, np.ones(len(opened["steps"]), bool))
