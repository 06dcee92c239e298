"""Recorded steps: rollouts, which hold T steps of N environments, and trajectories, each a whole episode."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.base.tree import concat_trees, map_tree, put_rows, take_rows
from maze_core.envs.vector import StepResult

if TYPE_CHECKING:
    from maze_core.base.tree import Tree
    from maze_core.envs.vector import Episode
    from maze_core.envs.wrappers import Memory

Ends = list[tuple[int, np.ndarray, "Tree"]]
"""(t, env indices [K], following observations with leaves [K, …]) of rows whose episode goes no further."""
_OF_STEPS = ("rewards", "terminated", "truncated", "valid")
"""The arrays of a rollout that hold one value for each step."""


@dataclass(slots=True)
class Rollout:
    """T steps of N environments. The next rollout reuses the arrays."""

    obs: Tree
    """Leaves [T + 1, N, …]; row t is the observation of action t, row T the start of the next rollout."""
    actions: Tree
    """Leaves [T, N, …], as sampled by the distribution."""
    rewards: np.ndarray
    """[T, N] float32"""
    terminated: np.ndarray
    """[T, N] bool"""
    truncated: np.ndarray
    """[T, N] bool"""
    valid: np.ndarray
    """[T, N] bool; False where the environment produced a filler row, and behind the last one of a column"""
    truncations: Ends = field(default_factory=list)
    """(t, env indices [K], following observations with leaves [K, …]) of the episodes cut by a time limit, and of the
    last rows of columns with fewer than T"""
    episodes: list[Episode] = field(default_factory=list)
    """The episodes that ended, in order"""
    extra: Tree = field(default_factory=dict)
    """Values that plugins add to each step by name, leaves [T, N, …]; rows of a batch have them in `Batch.extra`"""
    memory: Tree = field(default_factory=dict)
    """What the policy remembers before row 0, leaves [N, …]; empty for a policy without memory"""

    carried: np.ndarray | None = None
    """[N] float32, log-probabilities of the actions of row 0 that were chosen before this rollout, with the parameters
    of that time; nan where row 0 began in this rollout. None where no action can be carried over."""
    env_actions: Tree = field(default_factory=dict)
    """Leaves [T, N, …] in environment units, the arrays of `actions` where they are the same; empty: not kept"""
    terminations: Ends = field(default_factory=list)
    """The last observations of the episodes that ended by themselves, as `truncations`; empty: they are not kept"""
    after: Tree = field(default_factory=dict)
    """What the policy remembers after the last row, leaves [N, …], where a worker tells it"""
    carry: list[Memory] = field(default_factory=list)
    """What each environment's wrappers remembered when its current episode began, where a worker tells it"""
    version: int = 0
    """Version of the acting parameters, where workers run ahead"""

    @classmethod
    def over(cls, obs: Tree, actions: Tree, *, valid: bool) -> Rollout:
        """Return a rollout in these arrays, leaves [T + 1, N, …] and [T, N, …]; its rows are all valid, or none is."""
        shape = next(iter(actions.values())).shape[:2]
        return cls(
            obs,
            actions,
            rewards=np.zeros(shape, np.float32),
            terminated=np.zeros(shape, bool),
            truncated=np.zeros(shape, bool),
            valid=np.full(shape, valid),
        )

    @property
    def ended(self) -> np.ndarray:
        """[T, N] bool; True where a step ended an episode."""
        ended: np.ndarray = self.terminated | self.truncated
        return ended

    @property
    def continues(self) -> np.ndarray:
        """[T, N] bool; True where the next row of the column is valid and in the same episode. Row T - 1 counts too."""
        following: np.ndarray = ~self.ended
        following[:-1] &= self.valid[1:]
        return following

    def following(self) -> Tree:
        """Return the observations after each step, leaves [T, N, …]: those of the next row, or the last of an episode.

        After a step that ended its episode by itself they are those of the next row: nothing follows.
        """
        following = map_tree(lambda leaf: leaf[1:].copy(), self.obs)
        for t, rows, final in self.truncations:
            put_rows(following, (t, rows), final)
        return following

    def clear(self) -> None:
        """Forget what is not in arrays that are written again: the next rollout begins."""
        self.extra = {}
        for kept in (self.truncations, self.terminations, self.episodes, self.carry):
            kept.clear()

    def wide(self, rows: int) -> Rollout:
        """Return an empty rollout like this one, with so many environments."""

        def columns(leaf: np.ndarray) -> np.ndarray:
            return np.zeros((len(leaf), rows, *leaf.shape[2:]), leaf.dtype)

        empty: dict[str, Any] = {name: columns(getattr(self, name)) for name in _OF_STEPS}
        empty |= {name: map_tree(columns, getattr(self, name)) for name in ("obs", "actions")}
        empty["memory"] = map_tree(lambda leaf: np.zeros((rows, *leaf.shape[1:]), leaf.dtype), self.memory)
        return Rollout(**empty)

    def put(self, column: int, part: Rollout) -> None:
        """Copy a rollout of n environments, as long as this one, into the columns from `column` on."""
        rows = slice(column, column + part.rewards.shape[1])
        for key, leaf in part.extra.items():
            if key not in self.extra:
                self.extra[key] = np.zeros((*self.rewards.shape, *leaf.shape[2:]), leaf.dtype)
        for own, its in ((self.obs, part.obs), (self.actions, part.actions), (self.extra, part.extra)):
            put_rows(own, np.s_[:, rows], its)
        for name in _OF_STEPS:
            getattr(self, name)[:, rows] = getattr(part, name)
        put_rows(self.memory, rows, part.memory)
        self.truncations += [(t, column + indices, obs) for t, indices, obs in part.truncations]
        self.terminations += [(t, column + indices, obs) for t, indices, obs in part.terminations]

    def steps(self) -> Iterator[tuple[Tree, StepResult, Tree]]:
        """Yield actions, result and next observations of each step, as `VectorEnv.step` takes and returns them.

        For rollouts of environments with one agent each, with `env_actions` and `terminations`, whose `extra` has the
        numbers of the `info` alone.
        """
        ended, episodes, last = self.ended, deque(self.episodes), ends_by_step([*self.truncations, *self.terminations])
        for t, rewards in enumerate(self.rewards):
            rows = np.flatnonzero(ended[t])
            result = StepResult(rewards, self.terminated[t], self.truncated[t], self.valid[t], rows)
            result.info = take_rows(self.extra, t)
            if len(rows):
                result.final_obs = last[t][1]
                result.episodes = [episodes.popleft() for _ in rows]
            yield take_rows(self.env_actions, t), result, take_rows(self.obs, t + 1)


def ends_by_step(ends: Ends) -> dict[int, tuple[np.ndarray, Tree]]:
    """Return the environments and observations of each step that has some, in order."""
    grouped: dict[int, list[tuple[np.ndarray, Tree]]] = {}
    for t, indices, obs in sorted(ends, key=lambda end: end[0]):
        grouped.setdefault(t, []).append((indices, obs))
    return {t: several[0] if len(several) == 1 else _sorted(several) for t, several in grouped.items()}


def _sorted(several: list[tuple[np.ndarray, Tree]]) -> tuple[np.ndarray, Tree]:
    indices = np.concatenate([each for each, _ in several])
    order = np.argsort(indices)
    return indices[order], take_rows(concat_trees([obs for _, obs in several]), order)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode of L steps: what is played, recorded, and added to replay. Its files are those of maze-recordings."""

    obs: Tree
    """Leaves [L + 1, …]: the observation of each action, and the final observation."""
    actions: Tree
    """Leaves [L, …], in environment units as in all trees: discrete values count from 0."""
    rewards: np.ndarray
    """[L] float32, those of the environment, before the wrappers of a run."""
    terminated: bool
    truncated: bool
    """At most one of `terminated` and `truncated` is set; neither: the recording was interrupted."""
    episode_return: float
    """Sum of `rewards`, before they were rounded to float32."""
    seed: int | None = None
    """The seed passed to the environment's `reset`; None if unknown."""
    wrapped_rewards: np.ndarray | None = None
    """[L] float32, the rewards after the wrappers; None if they are not known."""
    parameters: Mapping[str, bool | int | float | str] | None = None
    """Those of the environment in this episode; None where they do not change."""

    def __len__(self) -> int:
        return len(self.rewards)
