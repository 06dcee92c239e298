"""From the actors' rollouts to the batch of an update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from maze_core.data.batch import Batch, TensorTree
from maze_core.data.replay_memory import check_memory
from maze_core.envs.spaces import space_specs
from maze_impala.rewards import clipped_rewards

if TYPE_CHECKING:
    from maze_core.envs.vector import Tree
    from maze_core.models.policy import Policy
    from maze_impala.actor import Delivery
    from maze_impala.config import IMPALAConfig


_OTHER_BYTES = 32
"""Of one step beside observation and action: reward, flags, log-probability."""


def check_trajectories(config: IMPALAConfig, policy: Policy) -> None:
    """Raise ConfigError where the trajectories under way and the batch do not fit into memory."""
    specs = [*space_specs(policy.observation_space, "observation").values()]
    specs += [*space_specs(policy.action_space, "action").values()]
    step = sum(spec.nbytes for spec in specs) + _OTHER_BYTES
    trajectories = config.rollouts_under_way * config.envs_per_actor + config.actors_batch_size
    needed = trajectories * (config.n_rollout_steps + 1) * step
    check_memory(needed, trajectories, "algorithm.actors_batch_size", what="trajectories under way")


class TrajectoryBatch:
    """B trajectories of T steps side by side, in arrays that are used for every update.

    `put` copies rollouts in, `rows` gives what is there as a batch.
    """

    def __init__(self, config: IMPALAConfig) -> None:
        self._config = config
        self._leaves: dict[str, Tree] = {}
        """`obs` [T + 1, B, …], `actions` and `steps` [T, B, …]; allocated like the first rollout."""
        self._truncations: list[tuple[int, np.ndarray, Tree]] = []

    def put(self, column: int, delivery: Delivery) -> None:
        """Copy a rollout into the columns from `column` on. The first column begins a new batch."""
        if column == 0:
            self._truncations.clear()
        rollout = delivery.rollout
        ended = rollout.terminated | rollout.truncated
        steps = {
            "log_prob": delivery.log_prob,
            "reward": clipped_rewards(rollout.rewards, self._config.reward_clipping),
            "discount": np.where(rollout.terminated, 0.0, self._config.gamma).astype(np.float32),
            "continues": (~ended & rollout.valid).astype(np.float32),
            "weight": rollout.valid.astype(np.float32),
        }
        for name, tree in (("obs", rollout.obs), ("actions", rollout.actions), ("steps", steps)):
            target = self._leaves.setdefault(name, {key: self._allocate(leaf) for key, leaf in tree.items()})
            for key, leaf in tree.items():
                target[key][:, column : column + leaf.shape[1]] = leaf
        self._truncations += [(t, column + envs, final_obs) for t, envs, final_obs in rollout.truncations]

    def rows(self, policy: Policy, device: torch.device) -> Batch:
        """T * B rows, time-major.

        `extra` holds, each [T * B]: `log_prob` of the actor, `reward` (clipped), `discount` (0 at a termination),
        `continues` (1 where the next row of the trajectory belongs to the same episode), `bootstrap` (the critic's
        value of the observation reached, where no next row tells it) and `weight` (0 for filler rows).
        """
        steps = {**self._leaves["steps"], "bootstrap": self._bootstrap(policy, device)}
        obs = {key: leaf[:-1] for key, leaf in self._leaves["obs"].items()}
        return Batch(_rows(obs, device), _rows(self._leaves["actions"], device), _rows(steps, device))

    def _allocate(self, leaf: np.ndarray) -> np.ndarray:
        return np.zeros((len(leaf), self._config.actors_batch_size, *leaf.shape[2:]), leaf.dtype)

    def _bootstrap(self, policy: Policy, device: torch.device) -> np.ndarray:
        """[T, B] values of the last observations: at the end of each trajectory and of each truncated episode."""
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
    """Leaves [T, B, …] as tensors [T * B, …]."""
    return {key: torch.from_numpy(leaf.reshape(-1, *leaf.shape[2:])).to(device) for key, leaf in tree.items()}
