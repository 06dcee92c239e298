"""The agent that acts with a policy plugin: a rule, a search, or chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maze_core.base.seeding import load_random_states, random_states
from maze_core.base.tree import stack_trees
from maze_core.collect.agents.agent import Agent, Choice
from maze_core.collect.policies.action_check import ActionCheck

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import Space

    from maze_core.base.tree import Tree
    from maze_core.collect.policies.base import ActingPolicy


class RuleAgent(Agent):
    """Acts with a policy plugin, inside the bounds of the action space.

    Args:
        policy: set up for the spaces.
        rngs: a random generator for each of the N rows.
        action_space: of a single environment.
    """

    def __init__(self, policy: ActingPolicy, rngs: Sequence[np.random.Generator], action_space: Space[Any]) -> None:
        self._policy, self._rngs = policy, rngs
        name = getattr(getattr(policy, "config", None), "name", "")  # a class of the user's own may have no config
        self._check = ActionCheck(action_space, f"the policy {name or type(policy).__name__}")

    def begin(self, rows: Sequence[int]) -> None:
        """Tell the policy that new episodes begin in these rows."""
        for row in rows:
            self._policy.begin(row)

    def act(self, obs: Tree) -> Choice:
        """Choose an action for every row, as the environments will execute it.

        Raises:
            RunError: the policy returned something else than actions.
        """
        actions = self._check(self._policy.act(obs, self._rngs), len(self._rngs))
        return Choice(actions, actions)

    def ahead(self, steps: int) -> Tree | None:
        """Return the actions of the next steps, leaves [steps, N, …]; None where they depend on observations."""
        if not self._policy.blind:
            return None
        chosen = [self.act({}).actions for _ in range(steps)]
        return stack_trees(chosen)

    def state(self) -> dict[str, Any]:
        """Return the policy's memory and the random states."""
        return {"policy": self._policy.state(), "rngs": random_states(self._rngs)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._policy.load_state(state["policy"])
        load_random_states(self._rngs, state["rngs"])
