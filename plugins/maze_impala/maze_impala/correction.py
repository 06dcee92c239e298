"""V-trace of a batch of trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from maze_onpolicy import explained_variance, vtrace
from torch import Tensor

from maze_core import map_tree

if TYPE_CHECKING:
    from maze_core import TensorTree
    from maze_impala.config import ActorsConfig


def corrected(config: ActorsConfig, log_rho: Tensor, value: Tensor, steps: TensorTree) -> tuple[Tensor, Tensor]:
    """Return the critic's targets and the advantages, [T * B], without a graph.

    Computed in NumPy: a GPU would wait at each step.

    Args:
        config: with the thresholds and the length of a trajectory, T.
        log_rho: [T * B], log-probability under the policy that V-trace is for, minus that under the acting one.
        value: [T * B], the critic's values.
        steps: `extra` of a batch of `trajectories`.
    """
    shape = (config.n_rollout_steps, -1)
    values = value.numpy(force=True).reshape(shape)
    data = map_tree(lambda leaf: leaf.numpy(force=True).reshape(shape), steps)
    following = np.concatenate([values[1:], data["bootstrap"][-1:]])
    following = np.where(data["continues"] > 0, following, data["bootstrap"])
    following[-1] = data["bootstrap"][-1]
    targets, advantages = vtrace(
        log_rho.numpy(force=True).reshape(shape),
        data["reward"],
        values,
        following,
        data["discount"],
        data["continues"],
        config.vtrace_clip_rho_threshold,
        config.vtrace_clip_pg_rho_threshold,
    )
    target, advantage = (torch.from_numpy(a.reshape(-1)).to(value.device) for a in (targets, advantages))
    return target, advantage


def explained(value: Tensor, target: Tensor, weight: Tensor) -> dict[str, float]:
    """Return how much of the targets' variance the critic explains, as a metric; all [T * B]."""
    values, targets, weights = (leaf.numpy(force=True) for leaf in (value, target, weight))
    return {"train/explained_variance": explained_variance(values[weights > 0], targets[weights > 0])}


def row_weights(steps: TensorTree) -> Tensor:
    """Return the weight of each row of a batch, [T * B], summing to 1: filler rows have none."""
    weight = steps["weight"]
    return weight / weight.sum().clamp(min=1)
