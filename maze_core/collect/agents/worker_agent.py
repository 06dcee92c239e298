"""Acting for some of the environments of a run, elsewhere than for the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.base.tree import map_tree, take_rows
from maze_core.collect.agents.agent import Agent, Choice

if TYPE_CHECKING:
    from maze_core.base.tree import Tree
    from maze_core.envs.vector import Share


class WorkerAgent(Agent):
    """Acts for a share of the rows exactly as an agent for all of them would.

    The last digits of a matrix product depend on the number of its rows. So the agent computes all rows, those of the
    share at their places; the others hold an observation of the share and are thrown away.

    Args:
        agent: acts for all rows.
        share: the rows that matter.
    """

    def __init__(self, agent: Agent, share: Share) -> None:
        self.agent, self._total, self.hears = agent, share.total, agent.hears
        self._first, self._own = share.first, slice(share.first, share.first + share.count)
        self._obs: Tree = {}
        """The last observations of all rows."""

    def begin(self, rows: Sequence[int]) -> None:
        """Forget the episodes of these rows of the share."""
        self.agent.begin([self._first + row for row in rows])

    def refresh(self) -> None:
        """Look at the network anew."""
        self.agent.refresh()

    def expect(self, steps: int) -> None:
        """Prepare for so many steps."""
        self.agent.expect(steps)

    def act(self, obs: Tree) -> Choice:
        """Choose an action for every row of the share, from observations with leaves [n, …]."""
        if not self._obs:
            self._obs = map_tree(lambda leaf: np.repeat(leaf[:1], self._total, 0), obs)
        own = self._own
        for key, leaf in obs.items():
            self._obs[key][own] = leaf
        samples, actions = self.agent.act(self._obs)
        its = take_rows(samples, own)
        # The same arrays stay the same.
        return Choice(its, {k: its[k] if leaf is samples.get(k) else leaf[own] for k, leaf in actions.items()})

    def hear(self, actions: Tree, rewards: np.ndarray) -> None:
        """Take what came of the last choice, for the rows of the share."""
        self.agent.hear(map_tree(self._spread, actions), self._spread(rewards))

    def _spread(self, leaf: np.ndarray) -> np.ndarray:
        """Return rows of the share at their places among all; the others are zeros."""
        whole = np.zeros((self._total, *leaf.shape[1:]), leaf.dtype)
        whole[self._own] = leaf
        return whole

    def state(self) -> dict[str, Any]:
        """Return what decides the next actions, of all rows."""
        return self.agent.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self.agent.load_state(state)
