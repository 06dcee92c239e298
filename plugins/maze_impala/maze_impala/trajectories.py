"""Builds the batch of an update from the actors' rollouts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from maze_core.data.batch import Batch
from maze_core.data.discounts import rollout_discounts
from maze_core.data.rollout import Rollout
from maze_core.envs.spaces import space_specs
from maze_core.free_ram import check_memory
from maze_core.training.recurrent import remembered_values
from maze_core.tree import TensorTree, flat_rows, map_tree, take_rows, to_tensors

if TYPE_CHECKING:
    from maze_core.data.sequences import Sequences
    from maze_core.models.policy import Policy
    from maze_core.tree import Tree
    from maze_impala.actor import Delivery
    from maze_impala.config import ActorsConfig


_OTHER_BYTES = 32
"""Bytes of one step without observation and action: reward, flags, log-probability."""
_OF_STEPS = ("rewards", "terminated", "truncated", "valid")
"""Arrays [T, N] of a rollout."""


def check_trajectories(config: ActorsConfig, policy: Policy) -> None:
    """Raise ConfigError where the pending trajectories and the batch do not fit into memory."""
    specs = [*space_specs(policy.observation_space, "observation").values()]
    specs += [*space_specs(policy.action_space, "action").values()]
    step = sum(spec.nbytes for spec in specs) + _OTHER_BYTES
    trajectories = config.rollouts_under_way * config.envs_per_actor + config.actors_batch_size
    needed = trajectories * (config.n_rollout_steps + 1) * step
    check_memory(needed, trajectories, "algorithm.actors_batch_size", what="trajectories under way")


class TrajectoryBatch:
    """B trajectories of T steps, in arrays that every update reuses.

    `put` copies rollouts in, `rows` returns them as a batch.
    """

    def __init__(self, config: ActorsConfig) -> None:
        self._config = config
        self._trees: dict[str, Tree] = {}
        """What rollouts consist of, leaves [·, B, …]; allocated with the first rollout's layout."""
        self._truncations: list[tuple[int, np.ndarray, Tree]] = []

    def put(self, place: int, delivery: Delivery) -> None:
        """Copy a rollout into the batch; `place` is its number in the batch, and 0 begins a new one."""
        if place == 0:
            self._truncations.clear()
        rollout, count = delivery.rollout, self._config.rollouts_per_batch
        lanes = rollout.rewards.shape[1]  # more than environments where several agents act
        column = place * lanes
        trees = {
            "obs": rollout.obs,
            "actions": rollout.actions,
            "steps": {name: getattr(rollout, name) for name in _OF_STEPS} | {"log_prob": delivery.log_prob},
            "extra": rollout.extra,
            "memory": take_rows(rollout.memory, None),
        }
        for name, tree in trees.items():
            target = self._trees.setdefault(
                name, map_tree(lambda v: np.zeros((len(v), count * lanes, *v.shape[2:]), v.dtype), tree)
            )
            for key, leaf in tree.items():
                target[key][:, column : column + lanes] = leaf
        self._truncations += [(t, column + envs, final_obs) for t, envs, final_obs in rollout.truncations]

    def rows(self, policy: Policy, device: torch.device) -> Batch:
        """Return a batch of T * B rows, time-major.

        `extra` holds, each [T * B]: `log_prob` of the actor, `reward` (clipped), `discount` (0 at a termination),
        `continues` (1 where the next row of the trajectory belongs to the same episode), `bootstrap` (the critic's
        value of the next observation, where it is not in the next row), `weight` (0 for filler rows) and, where agents
        have different networks, `group`, the number of the row's network.
        """
        obs, actions, steps, memory = (self._trees[name] for name in ("obs", "actions", "steps", "memory"))
        rewards, terminated, truncated, valid = (steps[name] for name in _OF_STEPS)
        rollout = Rollout(obs, actions, rewards, terminated, truncated, valid, self._truncations)
        sequences: Sequences | None = None
        if memory:
            before = take_rows(memory, 0)
            # Filler rows are sequences of one.
            remembering = replace(rollout, truncated=truncated | ~valid, valid=np.ones_like(valid), memory=before)
            _, bootstrap, sequences = remembered_values(policy, remembering, _rows(obs, device))
        else:
            bootstrap = _bootstrap(policy, rollout, device)
        extra = {
            **self._trees["extra"],
            "log_prob": steps["log_prob"],
            "reward": clipped_rewards(rewards, self._config.reward_clipping),
            "discount": rollout_discounts(rollout, self._config.gamma),
            "continues": (rollout.continues & valid).astype(np.float32),
            "bootstrap": bootstrap,
            "weight": valid.astype(np.float32),
        }
        acted_on = take_rows(obs, np.s_[:-1])
        return Batch(_rows(acted_on, device), _rows(actions, device), _rows(extra, device), sequences=sequences)


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
