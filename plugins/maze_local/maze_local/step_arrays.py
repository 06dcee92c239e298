"""The arrays of one step of all environments: what the driver and its workers tell each other, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from maze_core import RunError, Tree, VectorEnv, subtree, take_rows
from maze_core.base.tree import put_rows
from maze_core.envs.spaces import Specs, allocate, allocated_bytes, space_specs
from maze_core.envs.vector import StepResult, agents_of
from maze_local.shared_tree import SharedTree, has_room, scalars

if TYPE_CHECKING:
    from maze_core.envs.vector import Episode

_ACTION, _OBS, _FINAL, _INFO = "action:", "obs:", "final:", "info:"
"""What the keys of actions, of next and last observations, and of numbers of `info` begin with."""
_OF_AGENTS = ("valid", "acting", "restarted")


def step_specs(env: VectorEnv, info_columns: Sequence[str] = ()) -> Specs:
    """Return the leaves of one row: action, next and last observation, reward, flags, and these numbers of `info`."""
    observations = space_specs(env.observation_space, "observation")
    return {
        **_with_prefix(_ACTION, space_specs(env.action_space, "action")),
        **_with_prefix(_OBS, observations),
        **_with_prefix(_FINAL, observations),
        **scalars(reward=np.float32, terminated=np.bool_, truncated=np.bool_),
        **(scalars(**dict.fromkeys(_OF_AGENTS, np.bool_)) if agents_of(env) else {}),
        **_with_prefix(_INFO, scalars(**dict.fromkeys(info_columns, np.float32))),
    }


class StepArrays:
    """A step of N rows, leaves [N, …]. A worker writes its own rows, the driver reads all of them.

    On one machine both have the same memory; elsewhere each has arrays of its own, and `sent` travels.

    Args:
        arrays: as `step_specs` says.
        memory: the block that holds them, if they are shared.
    """

    def __init__(self, arrays: Tree, memory: SharedTree | None = None) -> None:
        self._arrays, self._memory = arrays, memory
        self.block = None if memory is None else memory.name
        """The name of the block; None: it is not shared."""
        self.actions = subtree(arrays, _ACTION)
        self.obs = subtree(arrays, _OBS)
        """The next observations, by the keys of the observation space."""
        self._final, self._info = subtree(arrays, _FINAL), subtree(arrays, _INFO)

    @classmethod
    def private(cls, specs: Specs, count: int) -> Self:
        """Return arrays of `count` rows that nobody shares."""
        return cls(allocate(specs, (count,)))

    @classmethod
    def shared(cls, specs: Specs, count: int) -> Self:
        """Return new arrays that processes of this machine share; `close` frees them.

        Raises:
            RunError: shared memory has no room for them.
        """
        needed = allocated_bytes(specs, (count,))
        if not has_room(needed):
            size = f"{needed / 1e6:.0f} MB"
            raise RunError(
                f"shared memory has no room for what the environments send ({size}): enlarge /dev/shm, or --runner dev"
            )
        memory = SharedTree(specs, count)
        return cls(memory.arrays, memory)

    @classmethod
    def attached(cls, specs: Specs, count: int, block: str, rows: slice) -> Self:
        """Return some rows of the shared arrays of another process, `count` rows in all."""
        memory = SharedTree(specs, count, block)
        return cls(take_rows(memory.arrays, rows), memory)

    def write(self, result: StepResult) -> None:
        """Take what environments returned that have written the next observations into `obs`."""
        arrays = self._arrays
        arrays["reward"][:] = result.reward
        arrays["terminated"][:] = result.terminated
        arrays["truncated"][:] = result.truncated
        if result.acting is not None:
            for name in _OF_AGENTS:
                arrays[name][:] = getattr(result, name)
        put_rows(self._info, slice(None), result.info)
        if result.final_obs is not None:
            put_rows(self._final, result.final_indices, result.final_obs)

    def sent(self) -> Tree:
        """Return what a driver has to be told that does not share these arrays; nothing if it does."""
        if self._memory is not None:
            return {}
        # Last observations are as large as all else, and most steps end no episode.
        ended = (self._arrays["terminated"] | self._arrays["truncated"]).any()
        left_out = (_ACTION,) if ended else (_ACTION, _FINAL)
        return {key: array for key, array in self._arrays.items() if not key.startswith(left_out)}

    def take(self, rows: slice, sent: Tree) -> None:
        """Take what a worker has `sent` of some rows."""
        put_rows(self._arrays, rows, sent)

    def result(self, episodes: list[Episode]) -> StepResult:
        """Return copies of what the workers wrote; `episodes`: those that ended."""
        arrays = self._arrays
        terminated, truncated = arrays["terminated"].copy(), arrays["truncated"].copy()
        (ended,) = (terminated | truncated).nonzero()
        result = StepResult(
            reward=arrays["reward"].copy(),
            terminated=terminated,
            truncated=truncated,
            valid=np.ones(len(terminated), np.bool_),
            final_indices=ended,
            final_obs=take_rows(self._final, ended) if len(ended) else None,
            episodes=episodes,
            info={name: values.copy() for name, values in self._info.items()},
        )
        if "acting" in arrays:
            result.valid, result.acting, result.restarted = (arrays[name].copy() for name in _OF_AGENTS)
            result.has_filler = not result.valid.all()
        return result

    def close(self) -> None:
        """Detach from the block, if there is one; who created it removes it."""
        for views in (self.actions, self.obs, self._final, self._info, self._arrays):
            views.clear()  # a block with views of it cannot be closed
        if self._memory is not None:
            self._memory.close()


def _with_prefix(prefix: str, specs: Specs) -> Specs:
    return {prefix + key: spec for key, spec in specs.items()}
