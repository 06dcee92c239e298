"""Some steps of environments, as the workers that took them tell of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import Episode, StepResult
from maze_core.tree import Tree, take_rows

if TYPE_CHECKING:
    from maze_core.envs.serial import SerialVectorEnv
    from maze_core.envs.wrapper_carry import Memory

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
    remembered: Tree = field(default_factory=dict)
    """What the policy that acted remembers afterwards, leaves [N, …]; empty if it remembers nothing."""

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
                result.final_obs = take_rows(self.final_obs, np.s_[before:after])
                result.episodes = self.episodes[before:after]
            yield take_rows(self.actions, t), result, take_rows(self.obs, t)


class Record:
    """Takes the transitions of N environments step by step, as a replay buffer does, to send them.

    Args:
        env: the environments.
        n_steps: T.
    """

    def __init__(self, env: SerialVectorEnv, n_steps: int) -> None:
        shape = (n_steps, env.num_envs)
        self._env = env
        self._obs = allocate(space_specs(env.observation_space, "observation"), shape)
        self._actions = allocate(space_specs(env.action_space, "action"), shape)
        self._results: list[StepResult] = []

    @property
    def taken(self) -> int:
        """The number of steps so far."""
        return len(self._results)

    def begin(self, obs: Tree) -> None:
        """Forget all steps."""
        self._results.clear()

    def step(self, actions: Tree, result: StepResult, obs: Tree) -> None:
        """Store one step of the environments, as `ReplayBuffer.step`."""
        t = self.taken
        for key, leaf in actions.items():
            self._actions[key][t] = leaf
        for key, leaf in obs.items():
            self._obs[key][t] = leaf
        self._results.append(result)

    def transitions(self) -> Transitions:
        """Return all steps; the arrays are overwritten by the next ones."""
        results = self._results
        last = [result.final_obs for result in results if result.final_obs is not None]
        none = take_rows(self._obs, np.s_[0, :0])
        return Transitions(
            self._obs,
            self._actions,
            np.stack([result.reward for result in results]),
            np.stack([result.terminated for result in results]),
            np.stack([result.truncated for result in results]),
            {key: np.concatenate([tree[key] for tree in last]) for key in none} if last else none,
            [episode for result in results for episode in result.episodes],
            list(self._env.episode_memory),
        )


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
        {key: np.concatenate([part.remembered[key] for part in parts]) for key in parts[0].remembered},
    )
