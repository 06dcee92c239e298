"""Which rows belong to which network, where agents have different ones: each has statistics of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.envs.several.actors import ACTOR
from maze_core.models.several.actor_policy import ActorPolicy

if TYPE_CHECKING:
    from maze_core.data.rollout import Rollout
    from maze_core.plugins.hookspecs import Run

GROUP = "group"
"""The name in `extra` under which rows have the number of their network."""


class AgentGroups:
    """Names the network of each row of a rollout, where agents have different ones.

    Each agent has rewards of its own, so rewards and advantages of different networks have different scales.
    """

    def __init__(self, run: Run) -> None:
        self._numbers: np.ndarray | None = None
        """The network of each agent, [agents] int64; None where all rows belong to one."""
        policy: Any = run.policy
        if run.rows_of(1) > 1 and isinstance(policy, ActorPolicy) and len(policy.groups) > 1:
            of = {actor: number for number, group in enumerate(policy.groups) for actor in group.actors}
            self._numbers = np.array([of[actor] for actor in sorted(of)])

    def name(self, rollout: Rollout) -> None:
        """Let `extra` of a rollout hold the `group` of each row, [T, N], where not all belong to one."""
        if self._numbers is not None:
            rollout.extra[GROUP] = self._numbers[rollout.obs[ACTOR][:-1]]
