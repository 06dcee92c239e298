"""When a transition is complete: of one agent after each step, of several when its agent acts again or ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import map_tree, subtree, take_rows, to_arrays, varies
from maze_core.base.saved_state import OrEmpty
from maze_core.base.tree import copy_tree, put_rows
from maze_onpolicy.data.transitions import Transitions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from maze_core import TensorTree, Tree
    from maze_core.collect.agents.row_memory import RowMemory
    from maze_core.envs.vector import StepResult

    LogProbs = Callable[[Tree, Tree, Tree], np.ndarray]


class Assembler:
    """Puts the steps of N rows together to transitions.

    A transition is open from the action of its agent until this acts again or ends; the rewards of that time belong to
    it. All that belongs to an open transition is held here: stores have complete ones only.

    Args:
        rows: N.
        memory: what the policy remembers of the rows; None: nothing, or it is not wanted.
    """

    def __init__(self, rows: int, memory: RowMemory | None = None) -> None:
        self._all = np.arange(rows)
        self.open = np.zeros(rows, bool)
        """[N] The rows that have an open transition."""
        self._fresh = np.zeros(rows, bool)
        """[N] The rows that have acted since `keep_log_probs`."""
        self.obs: Tree = {}
        """What the open actions were chosen from, leaves [N, …]; empty before the first."""
        self.actions: Tree = {}
        """The open actions, leaves [N, …]; empty before the first."""
        self._reward = np.zeros(rows, np.float32)
        """[N] The rewards since the open actions."""
        self._raw = np.zeros(rows, np.float32)
        """[N] Those before the run's wrappers, where environments keep them."""
        self._memory = memory
        self.before: Tree = {} if memory is None else memory.snapshot(rows)
        """What was remembered before the open transitions, leaves [N, …]."""
        self.log_prob = np.full(rows, np.nan, np.float32)
        """[N] Log-probabilities of the open actions with the parameters of their time; nan: not computed yet."""

    def add(self, obs: Tree, actions: Tree, result: StepResult, following: Tree) -> Transitions:
        """Return the transitions that a step of all rows completes; arguments as for `Sink.add`.

        In environments with one agent each all are complete, in the arrays of the step itself.
        """
        if result.acting is None and not result.has_filler:
            flags = result.terminated, result.truncated
            after = following if result.final_obs is None else copy_tree(following)
            put_rows(after, result.final_indices, result.final_obs or {})
            return Transitions(self._all, obs, actions, result.reward, *flags, after, result.info, result.raw)
        self._begin(np.flatnonzero(result.valid), obs, actions)
        paid = np.flatnonzero(self.open & (result.reward != 0))
        self._reward[paid] += result.reward[paid]
        if result.raw is not None:
            self._raw[self.open] += result.raw[self.open]
        ends = self.open & (result.terminated | result.truncated)
        acting = self.open if result.acting is None else self.open & result.acting
        rows = np.flatnonzero(ends | acting)
        self.open[rows] = False
        after = take_rows(following, rows)
        if result.final_obs is not None and ends.any():
            ended = np.flatnonzero(ends[rows])
            places = np.searchsorted(result.final_indices, rows[ended])
            put_rows(after, ended, take_rows(result.final_obs, places))
        return Transitions(
            rows,
            take_rows(self.obs, rows),
            take_rows(self.actions, rows),
            self._reward[rows],
            ends[rows] & result.terminated[rows],
            ends[rows] & result.truncated[rows],
            after,
            take_rows(result.info, rows),
            None if result.raw is None else self._raw[rows],
        )

    def _begin(self, rows: np.ndarray, obs: Tree, actions: Tree) -> None:
        """Open a transition for each row that acted."""
        if not self.obs:
            self.obs, self.actions = map_tree(np.zeros_like, obs), map_tree(np.zeros_like, actions)
        put_rows(self.obs, rows, take_rows(obs, rows))
        put_rows(self.actions, rows, take_rows(actions, rows))
        self._reward[rows] = self._raw[rows] = 0
        if self._memory is not None:
            put_rows(self.before, rows, take_rows(to_arrays(self._memory.before), rows))
        self.open[rows] = self._fresh[rows] = True

    def forget(self, rows: Sequence[int]) -> None:
        """Drop the open transitions of these rows: other episodes have begun there."""
        self.open[rows] = False

    def replace(self, leaves: TensorTree) -> None:
        """Replace leaves [N, …] of what was remembered before the open transitions."""
        self.before |= copy_tree(to_arrays(leaves))

    def keep_log_probs(self, log_prob: LogProbs) -> None:
        """Keep the log-probabilities of the open actions, before the parameters change.

        `log_prob`: returns those of K rows from observations, actions and what was remembered, leaves [K, …].
        """
        self.log_prob[self._fresh | ~self.open] = np.nan
        rows = np.flatnonzero(self._fresh & self.open)
        if len(rows):
            trees = (take_rows(tree, rows) for tree in (self.obs, self.actions, self.before))
            self.log_prob[rows] = log_prob(*trees)
        self._fresh[:] = False

    def state(self, obs: Tree, actions: Tree) -> dict[str, Any]:
        """Return the open transitions. Arguments: observations and actions like those that it may hold."""
        like = {f"obs/{key}": leaf for key, leaf in obs.items()}
        like |= {f"action/{key}": leaf for key, leaf in actions.items()} | {"reward": self._reward}
        held = {f"obs/{key}": leaf.copy() for key, leaf in self.obs.items()}
        held |= {f"action/{key}": leaf.copy() for key, leaf in self.actions.items()}
        if held:
            held["reward"] = self._reward.copy()
        for leaf in held.values():
            leaf[~self.open] = 0  # left over from earlier transitions, which a resumed run does not have
        saved: dict[str, Any] = {
            "open": self.open.copy(),
            "carried": varies(held, OrEmpty(like)),
            "log_prob": varies(self.log_prob.copy(), np.full_like(self.log_prob, np.nan)),
        }
        return saved if self._memory is None else {**saved, "remembered": copy_tree(self.before)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self.open[:] = state["open"]
        held = copy_tree(state["carried"])
        self.obs, self.actions = subtree(held, "obs/"), subtree(held, "action/")
        self._reward[:] = held.get("reward", 0)
        self.before = copy_tree(state.get("remembered", {}))
        self.log_prob[:] = state["log_prob"]
