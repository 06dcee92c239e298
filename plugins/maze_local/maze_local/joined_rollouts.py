"""Rollouts of workers, each of a share of the environments, as one process would record them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from maze_core import Rollout
from maze_core.base.tree import concat_trees
from maze_core.data.rollout import ends_by_step

if TYPE_CHECKING:
    from maze_core.envs.vector import Episode


def joined(parts: Sequence[Rollout], past: Rollout | None = None) -> Rollout:
    """Return the rollouts of shares of the environments, which took as many steps, as one.

    `past`: a rollout whose arrays may be overwritten; it is used if they fit.
    """
    shape = len(parts[0].rewards), sum(part.rewards.shape[1] for part in parts)
    whole = past if past is not None and past.rewards.shape == shape else parts[0].wide(shape[1])
    whole.clear()
    columns = np.cumsum([0, *(part.rewards.shape[1] for part in parts)]).tolist()
    for column, part in zip(columns, parts, strict=False):
        whole.put(column, part)
    whole.truncations[:] = [(t, *end) for t, end in ends_by_step(whole.truncations).items()]
    whole.terminations[:] = [(t, *end) for t, end in ends_by_step(whole.terminations).items()]
    whole.env_actions = {
        key: whole.actions[key]
        if all(part.env_actions[key] is part.actions.get(key) for part in parts)
        else np.concatenate([part.env_actions[key] for part in parts], 1)
        for key in parts[0].env_actions
    }
    whole.after = concat_trees([part.after for part in parts])
    whole.carry += [each for part in parts for each in part.carry]
    whole.episodes += _in_order([part.episodes for part in parts], whole.ended)
    return whole


def _in_order(episodes: Sequence[list[Episode]], ended: np.ndarray) -> list[Episode]:
    """Return the episodes of all shares in the order of steps, then of environments."""
    its: dict[int, deque[Episode]] = {}
    for share in episodes:
        for episode in share:
            its.setdefault(episode.env_index, deque()).append(episode)
    return [its[row].popleft() for row in np.nonzero(ended)[1].tolist()]
