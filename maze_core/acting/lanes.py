"""The sink of rollouts for environments with several agents, whose lanes act at different times."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.data.rollout import Rollout
from maze_core.tree import copy_tree, map_tree, take_rows, to_arrays

if TYPE_CHECKING:
    from maze_core.acting.agent import Choice
    from maze_core.acting.memory import RowMemory
    from maze_core.envs.vector import StepResult
    from maze_core.tree import TensorTree, Tree


class LaneSink:
    """Writes the transitions of N lanes into the arrays of one rollout, those of each lane without gaps.

    A lane's transition is open from its action until it acts again or ends: the rewards of that time belong to it. Only
    closed transitions are in the rollout: rows 0 … n_i - 1 of lane i, where `Rollout.valid` is True. Row n_i has the
    observation that follows them; the rows behind it repeat it. An open transition becomes row 0 of the next rollout.

    Args:
        obs: leaves [T + 1, N, …]
        samples: leaves [T, N, …]
        masks: the leaves of `obs` that are action masks.
        on_step: called after each step of the environments.
        memory: what the policy remembers of the lanes; None: nothing.
    """

    def __init__(
        self,
        obs: Tree,
        samples: Tree,
        masks: Collection[str],
        on_step: Callable[[], None],
        memory: RowMemory | None = None,
    ) -> None:
        steps, lanes = next(iter(samples.values())).shape[:2]
        self._on_step, self._masks = on_step, masks
        self.steps = 0
        """Steps taken of this rollout."""
        self.rollout = Rollout(
            obs=obs,
            actions=samples,
            rewards=np.zeros((steps, lanes), np.float32),
            terminated=np.zeros((steps, lanes), bool),
            truncated=np.zeros((steps, lanes), bool),
            valid=np.zeros((steps, lanes), bool),
        )
        # Two in turn: what the last actions were chosen from, and what the next are chosen from.
        self._now, self._spare = (map_tree(lambda leaf: np.zeros_like(leaf[0]), obs) for _ in range(2))
        self._closed = np.zeros(lanes, np.int64)
        """n_i, the number of closed transitions of each lane."""
        self._open = np.zeros(lanes, bool)
        self._acted = np.zeros(lanes, bool)
        """The lanes that have acted in this rollout."""
        self._carried: Tree = {}
        """The open transitions at the end of the last rollout, by name; leaves [N, …]."""
        self._memory = memory
        self._remembered: Tree = {} if memory is None else memory.snapshot(lanes)
        """What was remembered before the open transitions, leaves [N, …]."""
        self._log_prob = np.full(lanes, np.nan, np.float32)
        """Log-probabilities of the open actions when they were chosen, [N]; nan: not known."""

    @property
    def current(self) -> Tree:
        """The arrays of the current observations, leaves [N, …]."""
        return self._now

    def carry(self) -> Tree:
        """Begin the next rollout with the open transitions; return the current observations."""
        rollout, lanes = self.rollout, self._open
        for leaf in (rollout.rewards, rollout.terminated, rollout.truncated, rollout.valid):
            leaf.fill(0)
        rollout.truncations.clear()
        rollout.episodes.clear()
        self.steps = 0
        self._closed[:] = 0
        self._acted[:] = False
        for name, leaf in self._carried.items():
            self._column(name)[0, lanes] = leaf[lanes]
        rollout.carried = np.where(lanes, self._log_prob, np.float32(np.nan))
        return self._now

    def before(self, state: Tree) -> Tree:
        """Return the memory before row 0 of each lane, from that before the current observations, leaves [N, …]."""
        for key, leaf in state.items():
            leaf[self._open] = self._remembered[key][self._open]
        return state

    def replace(self, leaves: TensorTree) -> None:
        """Replace leaves [N, …] of what was remembered before the open transitions."""
        self._remembered |= copy_tree(to_arrays(leaves))

    def room(self, obs: Tree) -> Tree:
        """Return the arrays that the current observations are not in."""
        return self._spare

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Take one step of every lane; those that wait keep their open transition."""
        self._now, self._spare = following, obs
        self._begin(np.flatnonzero(result.valid), obs, choice)
        rollout, at = self.rollout, self._closed
        paid = np.flatnonzero(self._open & (result.reward != 0))
        rollout.rewards[at[paid], paid] += result.reward[paid]
        ends = self._open & (result.terminated | result.truncated)
        if ends.any():
            ended = np.flatnonzero(ends)
            rollout.terminated[at[ended], ended] = result.terminated[ended]
            rollout.truncated[at[ended], ended] = result.truncated[ended]
            self._add_cut(ends & result.truncated, result)
        closed = np.flatnonzero(ends if result.acting is None else ends | (self._open & result.acting))
        rollout.valid[at[closed], closed] = True
        at[closed] += 1
        self._open[closed] = False
        rollout.episodes += result.episodes
        self.steps += 1
        self._on_step()

    def finish(self) -> None:
        """End the rollout: complete the rows behind the closed transitions, and keep the open ones."""
        rollout, lanes = self.rollout, np.arange(len(self._closed))
        steps = len(rollout.rewards)
        waiting = np.flatnonzero(~self._open)
        for key, leaf in rollout.obs.items():
            leaf[self._closed[waiting], waiting] = self._now[key][waiting]
        at = np.minimum(self._closed, steps - 1)  # an open transition leaves room
        self._carried = {name: self._column(name)[at, lanes] for name in self._names()}
        for leaf in self._carried.values():
            leaf[waiting] = 0  # left over from earlier rollouts, which a resumed run does not have
        self._cut_short()
        for i, count in enumerate(self._closed.tolist()):
            for leaf in rollout.obs.values():
                leaf[count + 1 :, i] = leaf[count, i]
            for leaf in rollout.actions.values():
                leaf[count + 1 :, i] = leaf[min(count, steps - 1), i]
            if not self._open[i]:  # no action was chosen for this mask
                for key in self._masks:
                    rollout.obs[key][count:, i] = 1
        rollout.rewards[~rollout.valid] = 0

    def judge(self, log_prob: Callable[[Tree, Tree, Tree], np.ndarray]) -> None:
        """Keep the log-probabilities of the open actions, before the parameters change.

        `log_prob`: returns those of K rows from observations, actions and what was remembered, leaves [K, …].
        """
        self._log_prob[self._acted | ~self._open] = np.nan
        lanes = np.flatnonzero(self._acted & self._open)
        if len(lanes):
            obs, actions = (
                {key.removeprefix(kind): leaf[lanes] for key, leaf in self._carried.items() if key.startswith(kind)}
                for kind in ("obs/", "action/")
            )
            self._log_prob[lanes] = log_prob(obs, actions, take_rows(self._remembered, lanes))

    def acted_on(self, steps: int) -> Tree:
        """Return the masks of the rows in which an action was chosen, and of the current ones; leaves [R, …]."""
        obs, valid = self.rollout.obs, self.rollout.valid
        return {key: np.concatenate([obs[key][:-1][valid], self._now[key]]) for key in self._masks}

    def state(self) -> dict[str, Any]:
        """Return the open transitions."""
        saved: dict[str, Any] = {
            "open": self._open.copy(),
            "carried": copy_tree(self._carried),
            "log_prob": self._log_prob.copy(),
        }
        return saved if self._memory is None else {**saved, "remembered": copy_tree(self._remembered)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._open[:] = state["open"]
        self._carried = copy_tree(state["carried"])
        self._remembered = copy_tree(state.get("remembered", {}))
        self._log_prob[:] = state.get("log_prob", np.nan)  # earlier versions had none

    def _begin(self, acted: np.ndarray, obs: Tree, choice: Choice) -> None:
        """Open a transition for each lane that acted."""
        rollout, at = self.rollout, self._closed[acted]
        for key, leaf in obs.items():
            rollout.obs[key][at, acted] = leaf[acted]
        for key, leaf in choice.samples.items():
            rollout.actions[key][at, acted] = leaf[acted]
        if self._memory is not None:
            for key, state in self._memory.before.items():
                self._remembered[key][acted] = state.numpy(force=True)[acted]
        self._open[acted] = self._acted[acted] = True

    def _add_cut(self, cut: np.ndarray, result: StepResult) -> None:
        """Keep the last observations of lanes that a time limit cut."""
        final_obs = result.final_obs
        if final_obs is None:
            return
        for t in np.unique(self._closed[cut]):
            those = np.flatnonzero(cut & (self._closed == t))
            places = np.searchsorted(result.final_indices, those)
            final = take_rows(final_obs, places)
            self.rollout.truncations.append((int(t), those, final))

    def _cut_short(self) -> None:
        """Keep the observations that follow the last transitions of lanes with fewer than T."""
        rollout, counts = self.rollout, self._closed
        for n in np.unique(counts[(counts > 0) & (counts < len(rollout.rewards))]):
            those = np.flatnonzero((counts == n) & ~(rollout.terminated[n - 1] | rollout.truncated[n - 1]))
            if len(those):
                following = take_rows(rollout.obs, np.s_[n, those])
                rollout.truncations.append((int(n) - 1, those, following))

    def _names(self) -> Iterator[str]:
        yield from (f"obs/{key}" for key in self.rollout.obs)
        yield from (f"action/{key}" for key in self.rollout.actions)
        yield "reward"

    def _column(self, name: str) -> np.ndarray:
        """Return the arrays [T, N, …] of a column by name."""
        kind, _, key = name.partition("/")
        if kind == "reward":
            return self.rollout.rewards
        return self.rollout.obs[key] if kind == "obs" else self.rollout.actions[key]
