"""The state of environments as a checkpoint records it: the unfinished episodes, with their steps, to be replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.base.errors import ConfigError
from maze_core.base.saved_state import Array, Each, OrLeftOut, check_state
from maze_core.base.tree import Tree, copy_tree, take_rows
from maze_core.envs.parameters import PARAMETERS
from maze_core.envs.spaces import Specs, allocate, choices_of, flatten_space, space_specs
from maze_core.envs.vector import agents_of, can_replay, copies_of

if TYPE_CHECKING:
    from maze_core.envs.vector import VectorEnv

MEMORIES = Each(Each({}))
"""The form of what the wrappers of several environments remember; `recall` knows the form of each state."""
_NUMBERS = Array(np.dtype(np.int64), (None,), 0, 2**53)


@dataclass(frozen=True)
class Recorded:
    """The form of the state of environments like these, of any number."""

    env: VectorEnv

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if it is something else."""
        if not can_replay(self.env):
            check_state(saved, {}, place)
            check_state(saved, {episode_key(saved): _NUMBERS, "memory": MEMORIES}, place)
            return
        check_state(saved, {"length": _NUMBERS, "memory": MEMORIES}, place)
        agents, copies, steps = agents_of(self.env), copies_of(self.env), int(max(saved["length"], default=0))
        check_count(saved, copies)
        rows, actions = copies * max(1, len(agents)), space_specs(self.env.action_space, "action")
        below = {key: choices_of(leaf) for key, leaf in flatten_space(self.env.action_space, "action").items()}
        observations = space_specs(self.env.observation_space, "observation")
        form = {
            "episode": Array(np.dtype(np.int64), (copies,), 0, 2**53),
            "actions": {
                key: Array(spec.dtype, (steps, rows, *spec.shape), None if below[key] is None else 0, below[key])
                for key, spec in actions.items()
            },
            "rewards": Array(np.dtype(np.float32), (steps, rows)),
            "observation": {key: Array(spec.dtype, (rows, *spec.shape)) for key, spec in observations.items()},
            **({"acting": Array(np.dtype(np.bool_), (rows,))} if agents else {}),
            "length": _NUMBERS,
            "memory": MEMORIES,
            "parameters": OrLeftOut(PARAMETERS),
        }
        check_state(saved, form, place)


def episode_key(state: Mapping[str, Any]) -> str:
    """Return the key of the episode numbers in the state of environments: native ones have another than all others."""
    return "native_episode" if "native_episode" in state else "episode"


def check_count(state: dict[str, Any], num_envs: int) -> np.ndarray:
    """Return the lengths [num_envs] of the unfinished episodes in a recorded state."""
    lengths: np.ndarray = np.asarray(state["length"])
    if len(lengths) != num_envs:
        raise ConfigError(
            f"the saved run steps {len(lengths)} environments in parallel, this one {num_envs}",
            where="algorithm.num_envs",
            hint=f"Set algorithm.num_envs to {len(lengths)}.",
        )
    return lengths


def same_rewards(state: dict[str, Any], row: int, rewards: list[float]) -> bool:
    """Return True if these are the last rewards that a state records of a row."""
    recorded = state["rewards"][len(state["rewards"]) - len(rewards) :, row]
    return np.array_equal(recorded, np.asarray(rewards, np.float32))


_CAPACITY = 64


class StepLog:
    """A growing record of the actions and rewards of N environments; O(1) amortised per step, a few bytes each.

    An episode that never ends keeps all its steps, since resuming exactly needs them.
    """

    def __init__(self, specs: Specs, num_envs: int) -> None:
        self._specs, self._num_envs = specs, num_envs
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._first, self._end = 0, 0
        self._allocate(_CAPACITY)

    def append(self, actions: Tree, rewards: np.ndarray) -> None:
        """Copy the actions (leaves `[N, …]`) and the rewards `[N]` of one step."""
        if self._end == self._capacity:
            self._make_room()
        for key, array in self._actions.items():
            array[self._end] = actions[key]
        self._rewards[self._end] = rewards
        self._end += 1

    def extend(self, actions: Tree, rewards: np.ndarray) -> None:
        """Copy the actions (leaves `[T, N, …]`) and the rewards `[T, N]` of T steps."""
        end = self._end + len(rewards)
        if end > self._capacity:
            self._make_room(len(rewards))
            end = self._end + len(rewards)
        for key, array in self._actions.items():
            array[self._end : end] = actions[key]
        self._rewards[self._end : end] = rewards
        self._end = end

    def keep(self, steps: int) -> None:
        """Forget all but the last `steps` steps."""
        self._first = max(self._first, self._end - steps)

    def recorded(self, lengths: Sequence[int] | np.ndarray) -> dict[str, Any]:
        """Return copies of `actions` (leaves `[T, N, …]`) and `rewards` `[T, N]` float32.

        `lengths` are those of the unfinished episodes. The steps of a shorter episode come last, after zeros.
        """
        steps = slice(self._first, self._end)
        actions = copy_tree(take_rows(self._actions, steps))
        rewards = self._rewards[steps].copy()
        for array in (*actions.values(), rewards):
            for i, length in enumerate(lengths):
                array[: len(array) - length, i] = 0
        return {"actions": actions, "rewards": rewards}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the result of `recorded()`."""
        self.clear()
        for t, rewards in enumerate(state["rewards"]):
            self.append(take_rows(state["actions"], t), rewards)

    def _allocate(self, capacity: int) -> None:
        self._capacity = capacity
        self._actions = allocate(self._specs, (capacity, self._num_envs))
        self._rewards = np.zeros((capacity, self._num_envs), np.float32)

    def _make_room(self, steps: int = 1) -> None:
        kept, past = slice(self._first, self._end), (self._actions, self._rewards)
        count = self._end - self._first
        self._allocate(max(_CAPACITY, 2 * (count + steps - 1)))
        for key, array in past[0].items():
            self._actions[key][:count] = array[kept]
        self._rewards[:count] = past[1][kept]
        self._first, self._end = 0, count
