"""The batch of an update, made of the actors' rollouts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from maze_onpolicy import remembered_values, rollout_discounts

from maze_core import Batch, Sequences, TensorTree, take_rows, to_tensors
from maze_core.base.free_ram import check_ram
from maze_core.base.tree import flat_rows, select_rows
from maze_core.data.batch import BatchShare, even_parts
from maze_core.envs.spaces import space_specs

if TYPE_CHECKING:
    from maze_core import Policy, Rollout, Tree
    from maze_impala.config import ActorsConfig


_OTHER_BYTES = 32
"""Bytes of one step without observation and action: reward, flags, log-probability."""


def check_trajectories(config: ActorsConfig, policy: Policy) -> None:
    """Raise ConfigError where the pending trajectories and the batch do not fit into memory."""
    specs = [*space_specs(policy.observation_space, "observation").values()]
    specs += [*space_specs(policy.action_space, "action").values()]
    step = sum(spec.nbytes for spec in specs) + _OTHER_BYTES
    trajectories = config.rollouts_under_way * config.envs_per_actor + config.actors_batch_size
    needed = trajectories * (config.n_rollout_steps + 1) * step
    check_ram(needed, trajectories, "algorithm.actors_batch_size", what="trajectories under way")


def trajectories(rollout: Rollout, config: ActorsConfig, policy: Policy, device: torch.device) -> Batch:
    """Return the trajectories of a rollout, T steps of B columns, as a batch of T * B rows, time-major.

    `extra` holds, each [T * B]: `log_prob` of the actor, `reward` (clipped), `discount` (0 at a termination),
    `continues` (1 where the next row of the trajectory belongs to the same episode), `bootstrap` (the critic's
    value of the next observation, where it is not in the next row), `weight` (0 for filler rows) and, where agents
    have different networks, `group`, the number of the row's network.
    """
    sequences: Sequences | None = None
    valid = rollout.valid
    if rollout.memory:
        # Filler rows are sequences of one.
        remembering = replace(rollout, truncated=rollout.truncated | ~valid, valid=np.ones_like(valid))
        _, bootstrap, sequences = remembered_values(policy, remembering, _rows(rollout.obs, device))
    else:
        bootstrap = _bootstrap(policy, rollout, device)
    extra = {
        **rollout.extra,
        "reward": clipped_rewards(rollout.rewards, config.reward_clipping),
        "discount": rollout_discounts(rollout, config.gamma),
        "continues": (rollout.continues & valid).astype(np.float32),
        "bootstrap": bootstrap,
        "weight": valid.astype(np.float32),
    }
    acted_on = take_rows(rollout.obs, np.s_[:-1])
    return Batch(_rows(acted_on, device), _rows(rollout.actions, device), _rows(extra, device), sequences=sequences)


def clipped_rewards(rewards: np.ndarray, clipping: str) -> np.ndarray:
    """Return rewards of any shape, clipped as in the paper (Espeholt et al., arXiv 1802.01561, table G.1).

    `abs_one`: cut at -1 and 1. `soft_asymmetric`: 5 tanh(r / 5), and 0.3 times that for negative rewards, so that
    failure weighs less than success. `none`: the same rewards.
    """
    clipped: np.ndarray = rewards
    if clipping == "abs_one":
        clipped = np.clip(rewards, -1, 1)
    elif clipping == "soft_asymmetric":
        squeezed = np.tanh(rewards / 5)
        clipped = np.where(rewards < 0, 0.3 * squeezed, squeezed) * 5
    return clipped


def _bootstrap(policy: Policy, rollout: Rollout, device: torch.device) -> np.ndarray:
    """Return values [T, B] of last observations: at the ends of trajectories and of truncated episodes."""
    tails = {
        key: np.concatenate([leaf[-1], *(final_obs[key] for _, _, final_obs in rollout.truncations)])
        for key, leaf in rollout.obs.items()
    }
    with torch.no_grad():
        values = policy.value(to_tensors(tails, device)).numpy(force=True)
    bootstrap = np.zeros_like(rollout.rewards)
    start = bootstrap.shape[1]
    bootstrap[-1] = values[:start]
    for t, columns, _ in rollout.truncations:
        bootstrap[t, columns] = values[start : start + len(columns)]
        start += len(columns)
    return bootstrap


def _rows(tree: Tree, device: torch.device) -> TensorTree:
    """Return leaves [T, B, …] as tensors [T * B, …]."""
    return to_tensors(flat_rows(tree), device)


def shares_of_trajectories(batch: Batch, count: int, steps: int) -> list[BatchShare]:
    """Return `count` shares of whole trajectories, weighted by the sum of their rows' `extra["weight"]`.

    Args:
        batch: T * B rows, time-major: the trajectory of row t * B + b is b.
        count: number of shares.
        steps: T.
    """
    columns = len(batch) // steps
    rows = torch.arange(steps * columns).reshape(steps, columns)
    shares = []
    for start, end in even_parts(columns, count):
        chosen = rows[:, start:end].reshape(-1)
        part = batch.map(lambda leaf, chosen=chosen: leaf.index_select(0, chosen.to(leaf.device)))  # type: ignore[misc]
        if batch.sequences is not None:
            part.sequences = _of_columns(batch.sequences, columns, start, end)
        shares.append(BatchShare(part, float(part.extra["weight"].sum())))
    if any(share.weight for share in shares):
        return shares
    return [BatchShare(share.batch, len(share.batch)) for share in shares]  # filler rows only: all losses are 0


def _of_columns(sequences: Sequences, columns: int, start: int, end: int) -> Sequences:
    """Return the sequences of the trajectories from `start` to `end`, for a batch of these alone."""
    order = torch.arange(int(sequences.lengths.sum())) if sequences.order is None else sequences.order.cpu()
    of = (order % columns).numpy()
    mine = (of >= start) & (of < end)
    chosen = np.flatnonzero(mine[sequences.starts])
    rows = order[torch.from_numpy(mine)]
    places = rows // columns * (end - start) + rows % columns - start
    device = None if sequences.order is None else sequences.order.device
    state = select_rows(sequences.state, torch.from_numpy(chosen))
    return Sequences(sequences.lengths[chosen], state, places.to(device))
