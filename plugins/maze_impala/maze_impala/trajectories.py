"""Builds the batch of an update from the actors' rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from maze_core.data.batch import Batch, TensorTree
from maze_core.data.discounts import rollout_discounts
from maze_core.data.rollout import Rollout
from maze_core.envs.spaces import space_specs
from maze_core.free_memory import check_memory
from maze_core.training.remembered import remembered_values
from maze_impala.rewards import clipped_rewards

if TYPE_CHECKING:
    from maze_core.data.sequences import Sequences
    from maze_core.envs.vector import Tree
    from maze_core.models.policy import Policy
    from maze_impala.actor import Delivery
    from maze_impala.actors_config import ActorsConfig


_OTHER_BYTES = 32
"""Bytes of one step without observation and action: reward, flags, log-probability."""


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
        self._leaves: dict[str, Tree] = {}
        """`obs` [T + 1, B, …], `actions` and `steps` [T, B, …]; allocated with the first rollout's layout."""
        self._truncations: list[tuple[int, np.ndarray, Tree]] = []

    def put(self, place: int, delivery: Delivery) -> None:
        """Copy a rollout into the batch; `place` is its number in the batch, and 0 begins a new one."""
        if place == 0:
            self._truncations.clear()
        rollout = delivery.rollout
        column = place * rollout.rewards.shape[1]
        steps = {
            "log_prob": delivery.log_prob,
            "reward": clipped_rewards(rollout.rewards, self._config.reward_clipping),
            "discount": rollout_discounts(rollout, self._config.gamma),
            "continues": (rollout.continues & rollout.valid).astype(np.float32),
            "weight": rollout.valid.astype(np.float32),
        }
        trees = {"obs": rollout.obs, "actions": rollout.actions, "steps": steps}
        if rollout.memory:
            trees["flags"] = {"terminated": rollout.terminated, "truncated": rollout.truncated | ~rollout.valid}
            trees["memory"] = {key: leaf[None] for key, leaf in rollout.memory.items()}
        for name, tree in trees.items():
            target = self._leaves.setdefault(name, {key: self._allocate(leaf) for key, leaf in tree.items()})
            for key, leaf in tree.items():
                target[key][:, column : column + leaf.shape[1]] = leaf
        self._truncations += [(t, column + envs, final_obs) for t, envs, final_obs in rollout.truncations]

    def rows(self, policy: Policy, device: torch.device) -> Batch:
        """Return a batch of T * B rows, time-major.

        `extra` holds, each [T * B]: `log_prob` of the actor, `reward` (clipped), `discount` (0 at a termination),
        `continues` (1 where the next row of the trajectory belongs to the same episode), `bootstrap` (the critic's
        value of the next observation, where it is not in the next row) and `weight` (0 for filler rows).
        """
        sequences: Sequences | None = None
        if "memory" in self._leaves:
            bootstrap, sequences = self._remembered(policy, device)
        else:
            bootstrap = self._bootstrap(policy, device)
        steps = {**self._leaves["steps"], "bootstrap": bootstrap}
        obs = {key: leaf[:-1] for key, leaf in self._leaves["obs"].items()}
        actions = self._leaves["actions"]
        return Batch(_rows(obs, device), _rows(actions, device), _rows(steps, device), sequences=sequences)

    def _remembered(self, policy: Policy, device: torch.device) -> tuple[np.ndarray, Sequences]:
        """Return the values [T, B] of the next observations, and all rows as sequences."""
        leaves, flags = self._leaves, self._leaves["flags"]
        rollout = Rollout(
            obs=leaves["obs"],
            actions=leaves["actions"],
            rewards=leaves["steps"]["reward"],
            terminated=flags["terminated"],
            truncated=flags["truncated"],
            valid=np.ones_like(flags["truncated"]),
            truncations=self._truncations,
            memory={key: leaf[0] for key, leaf in leaves["memory"].items()},
        )
        _, following, sequences = remembered_values(policy, rollout, _rows(leaves["obs"], device))
        return following, sequences

    def _allocate(self, leaf: np.ndarray) -> np.ndarray:
        columns = self._config.rollouts_per_batch * leaf.shape[1]  # more than environments where several agents act
        return np.zeros((len(leaf), columns, *leaf.shape[2:]), leaf.dtype)

    def _bootstrap(self, policy: Policy, device: torch.device) -> np.ndarray:
        """Return values [T, B] of last observations: at the ends of trajectories and of truncated episodes."""
        tails = {
            key: np.concatenate([leaf[-1], *(final_obs[key] for _, _, final_obs in self._truncations)])
            for key, leaf in self._leaves["obs"].items()
        }
        with torch.no_grad():
            values = policy.value({k: torch.from_numpy(v).to(device) for k, v in tails.items()}).numpy(force=True)
        bootstrap = np.zeros_like(self._leaves["steps"]["reward"])
        start = bootstrap.shape[1]
        bootstrap[-1] = values[:start]
        for t, columns, _ in self._truncations:
            bootstrap[t, columns] = values[start : start + len(columns)]
            start += len(columns)
        return bootstrap


def _rows(tree: Tree, device: torch.device) -> TensorTree:
    """Return leaves [T, B, …] as tensors [T * B, …]."""
    return {key: torch.from_numpy(leaf.reshape(-1, *leaf.shape[2:])).to(device) for key, leaf in tree.items()}
