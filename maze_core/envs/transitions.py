"""Some steps of environments, as the workers that took them tell of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from maze_core.envs.vector import Episode, StepResult, Tree

if TYPE_CHECKING:
    from maze_core.envs.wrapper_memory import Memory

_NONE_ENDED = np.zeros(0, np.int64)


@dataclass(slots=True)
class Transitions:
    """T consecutive steps of N environments. Episodes end K times; ends are in the order of steps, then of rows."""

    obs: Tree
    """Leaves [T, N, …]: what the next actions are chosen from."""
    actions: Tree
    """Leaves [T, N, …], in environment units."""
    rewards: np.ndarray
    """[T, N] float32"""
    terminated: np.ndarray
    """[T, N] bool"""
    truncated: np.ndarray
    """[T, N] bool"""
    final_obs: Tree
    """Leaves [K, …]: the last observation of each episode that ended."""
    episodes: list[Episode]
    """K of them."""
    memory: list[Memory]
    """What each environment's wrappers remembered when its current episode began, N of them."""

    @property
    def ended(self) -> np.ndarray:
        """[T, N] bool, True where a step ended an episode."""
        ended: np.ndarray = self.terminated | self.truncated
        return ended

    def steps(self) -> Iterator[tuple[Tree, StepResult, Tree]]:
        """Yield actions, result and next observations of each step, as `VectorEnv.step` takes and returns them."""
        valid = np.ones(self.rewards.shape[1], np.bool_)
        ended = self.ended
        ends = np.cumsum(ended.sum(1)).tolist()
        for t, (before, after) in enumerate(zip([0, *ends], ends, strict=False)):
            result = StepResult(self.rewards[t], self.terminated[t], self.truncated[t], valid, _NONE_ENDED)
            if after > before:
                result.final_indices = np.flatnonzero(ended[t])
                result.final_obs = {key: leaf[before:after] for key, leaf in self.final_obs.items()}
                result.episodes = self.episodes[before:after]
            yield _at(self.actions, t), result, _at(self.obs, t)


def joined(parts: Sequence[Transitions]) -> Transitions:
    """Return the transitions of several shares of the environments, which took as many steps, as those of all."""
    terminated = np.concatenate([part.terminated for part in parts], 1)
    truncated = np.concatenate([part.truncated for part in parts], 1)
    places, first = [], 0
    for part in parts:
        places.append(np.argwhere(part.ended) + np.array([0, first]))
        first += part.ended.shape[1]
    steps, rows = np.concatenate(places).T
    order = np.lexsort((rows, steps))
    final = {key: np.concatenate([part.final_obs[key] for part in parts])[order] for key in parts[0].final_obs}
    episodes = [episode for part in parts for episode in part.episodes]
    return Transitions(
        {key: np.concatenate([part.obs[key] for part in parts], 1) for key in parts[0].obs},
        {key: np.concatenate([part.actions[key] for part in parts], 1) for key in parts[0].actions},
        np.concatenate([part.rewards for part in parts], 1),
        terminated,
        truncated,
        final,
        [episodes[number] for number in order.tolist()],
        [memory for part in parts for memory in part.memory],
    )


def _at(tree: Tree, t: int) -> Tree:
    return {key: leaf[t] for key, leaf in tree.items()}
