"""Recorded actions are those that the recorded masks allow; checked before anything is learnt from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from maze_offpolicy import JointActions

from maze_core import take_rows, to_tensors
from maze_recordings.recording_files import TrajectoryError

if TYPE_CHECKING:
    from maze_core import TensorTree, Tree
    from maze_recordings.trajectories import Trajectories

_CHUNK = 1024


def check_masks(data: Trajectories, where: str) -> None:
    """Check that each recorded action was allowed.

    Args:
        data: the episodes.
        where: the data set, for the message.

    Raises:
        TrajectoryError: a mask forbids an action; names the episode, the step and the mask.
    """
    actions = JointActions(data.observation_space, data.action_space)
    keys = [key for key, sizes in actions.choices.items() for _ in sizes]
    for rows in row_chunks(data.steps):
        allowed = actions.allowed(row_tensors(data.obs, data.observation_rows(rows)))
        if allowed is None:
            return
        sound = allowed.gather(1, actions.indices(row_tensors(data.actions, rows))).numpy()
        for place, member in np.argwhere(~sound)[:1].tolist():
            row = int(rows[place])
            episode = int(np.searchsorted(data.starts, row, side="right")) - 1
            step, mask = row - int(data.starts[episode]), actions.masks[keys[member]][0]
            raise TrajectoryError(
                f"{where}: the action of episode {episode}, step {step} is forbidden by its mask {mask!r}"
            )


def row_chunks(rows: int) -> list[np.ndarray]:
    """Return all row numbers in order, in chunks that bound memory."""
    return [np.arange(start, min(start + _CHUNK, rows)) for start in range(0, rows, _CHUNK)]


def row_tensors(tree: Tree, rows: np.ndarray) -> TensorTree:
    """Return some rows of a tree as tensors on the CPU."""
    return to_tensors(take_rows(tree, rows))
