"""Rollouts in which several agents act: the network of each row, and metrics of each actor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_core import flatten_space
from maze_core.envs.actors import ACTOR, keys_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gymnasium import Space

    from maze_core import Rollout
    from maze_core.envs.actors import ActorId
    from maze_core.plugins.hookspecs import Run

GROUP = "group"
"""The name in `extra` under which rows have the number of their network."""


class AgentGroups:
    """Names the network of each row of a rollout, where agents have different ones, and says what each actor did.

    Each agent has rewards of its own, so rewards and advantages of different networks have different scales.
    """

    def __init__(self, run: Run, actors: ActorId) -> None:
        self._actors, self._action_space = actors, run.action_space
        self._numbers: np.ndarray | None = None
        """The network of each agent, [agents] int64; None where all rows belong to one."""
        policy: Any = run.policy
        if run.rows_of(1) > 1 and len(getattr(policy, "groups", ())) > 1:
            of = {actor: number for number, group in enumerate(policy.groups) for actor in group.actors}
            self._numbers = np.array([of[actor] for actor in sorted(of)])

    def name(self, rollout: Rollout) -> None:
        """Let `extra` of a rollout hold the `group` of each row, [T, N], where not all belong to one."""
        if self._numbers is not None:
            rollout.extra[GROUP] = self._numbers[rollout.obs[ACTOR][:-1]]

    def metrics(self, rollout: Rollout) -> dict[str, float]:
        """Return the metrics of the actors, see `actor_metrics`."""
        return actor_metrics(self._actors, self._action_space, rollout)


def actor_metrics(actors: ActorId, action_space: Space[Any], rollout: Rollout) -> dict[str, float]:
    """Return the metrics `train/actor/NAME/…` of a rollout, from the valid rows in which each actor acts.

    `share` of all rows; `reward_mean`, the mean reward of its own actions; of each action leaf `KEY_mean` and
    `KEY_std` (Box, as sampled) or `KEY_entropy` (of the choices made, in nats). An actor that did not act has only
    `share`, 0.
    """
    acting, leaves = rollout.obs[ACTOR][:-1], flatten_space(action_space, "action")
    total = max(int(rollout.valid.sum()), 1)
    metrics: dict[str, float] = {}
    for number, (name, kind) in enumerate(actors.actors.items()):
        rows = (acting == number) & rollout.valid
        place, count = f"train/actor/{name}", int(rows.sum())
        metrics[f"{place}/share"] = count / total
        if not count:
            continue
        metrics[f"{place}/reward_mean"] = float(rollout.rewards[rows].mean())
        for full, own in keys_below(kind, leaves, "action").items():
            for statistic, value in _of_actions(leaves[full], rollout.actions[full][rows]):
                metrics[f"{place}/{own}_{statistic}"] = value
    return metrics


def _of_actions(space: Space[Any], taken: np.ndarray) -> Iterator[tuple[str, float]]:
    """Yield statistics of the actions [n, …] of a leaf."""
    if isinstance(space, spaces.Box):
        yield "mean", float(taken.mean())
        yield "std", float(taken.std())
        return
    members = taken.reshape(len(taken), -1).astype(np.int64).T
    yield "entropy", float(np.mean([_entropy(np.bincount(member) / len(member)) for member in members]))


def _entropy(shares: np.ndarray) -> float:
    there = shares[shares > 0]
    return float(-(there * np.log(there)).sum())
