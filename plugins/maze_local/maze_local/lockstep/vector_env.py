"""N environments stepped in worker processes: for slow environments, or those that cannot share a process."""

from __future__ import annotations

import pickle
import warnings
import weakref
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.base.errors import ConfigError
from maze_core.base.tree import Tree, map_tree, put_rows, take_rows
from maze_core.envs.recorded_state import check_count, share_of_state
from maze_core.envs.vector import StepResult
from maze_local.lockstep import worker
from maze_local.lockstep.pool import Pool
from maze_local.lockstep.worker import STEP, part, shares_of
from maze_local.processes import StartMethod

if TYPE_CHECKING:
    from maze_core.base.seeding import EpisodeSeeds
    from maze_core.envs.checks import MakeEnv
    from maze_core.envs.wrappers.carry import Memory

_STARTING = (
    "It had not built its environments yet. A script that starts worker processes must do so below "
    "`if __name__ == '__main__':`; otherwise each worker runs the whole script again."
)


class ProcessVectorEnv:
    """Steps environments in worker processes in lockstep; each worker has a contiguous share of them.

    Where several agents act in an environment, its agent rows are in one worker.

    The transitions are those of `SerialVectorEnv` for the same seeds, and their states are interchangeable.
    Arrays travel through shared memory; a pipe to each worker carries the commands.

    Args:
        make: builds environment `index`; sent to the workers.
        num_envs: environments in all; copies, where several agents have a row each.
        workers: processes, at most one for each environment.
        step_timeout: seconds one step may take.
        start_method: `fork` is not offered: it deadlocks once threads or CUDA are in use.

    Raises:
        ConfigError: `make` cannot be sent to another process, or `SerialVectorEnv` refuses it.
        RunError: an environment raised (with its traceback), or a worker died or does not answer. Then the workers
            are terminated and no further step is possible.
    """

    def __init__(
        self,
        make: MakeEnv,
        num_envs: int,
        workers: int,
        step_timeout: float = 60.0,
        start_method: StartMethod = "forkserver",
    ) -> None:
        self._pool = Pool(_pack(make), shares_of(num_envs, workers), start_method, step_timeout)
        self._finalizer = weakref.finalize(self, self._pool.close)
        first, *others = self._pool.gather(10 * step_timeout, _STARTING)
        self.observation_space, self.action_space, self.agents = first[1:]
        self._agent_rows = max(1, len(self.agents))
        self.num_envs = num_envs * self._agent_rows
        if any(other != first for other in others):
            self.close()
            raise ConfigError("the environments of a run must all have the same spaces", where="env")
        self._info_columns = worker.info_columns_of(make)
        specs = worker.block_specs(self.observation_space, self.action_space, self.agents, self._info_columns)
        self._pool.share_memory(specs, self.num_envs)

    @property
    def pids(self) -> list[int]:
        """The workers' process ids, for monitoring; none once they have been closed."""
        return [member.process.pid for member in self._pool.members]

    def reset(self, seeds: EpisodeSeeds, out: Tree) -> None:
        """Begin episode 0 everywhere; write the first observations into `out` (leaves `[N, …]`)."""
        self._ask_each([("reset", seeds)] * len(self._pool.members))
        self._read("obs:", out)

    def step(self, actions: Tree, out: Tree) -> StepResult:
        """Step every environment once; write the next observations into `out`."""
        arrays = self._pool.arrays
        for key, value in actions.items():
            arrays["action:" + key][...] = value
        self._pool.send([STEP] * len(self._pool.members))
        replies = self._pool.gather(self._pool.timeout)
        self._read("obs:", out)
        result = StepResult(
            reward=arrays["reward"].copy(),
            terminated=arrays["terminated"].copy(),
            truncated=arrays["truncated"].copy(),
            valid=np.ones(self.num_envs, np.bool_),
            final_indices=np.zeros(0, np.int64),
            episodes=[episode for reply in replies if reply for episode in reply[1]],
            info={name: arrays["info:" + name].copy() for name in self._info_columns},
        )
        if self.agents:
            result.valid, result.acting = arrays["valid"].copy(), arrays["acting"].copy()
            result.restarted = arrays["restarted"].copy()
            result.has_filler = not result.valid.all()
        if any(replies):
            result.final_indices = np.flatnonzero(result.terminated | result.truncated)
            final = part(arrays, "final:", slice(None))
            result.final_obs = take_rows(final, result.final_indices)
        return result

    def state(self) -> dict[str, Any]:
        """Return the unfinished episodes, as `SerialVectorEnv.state` does for the same environments."""
        states = [reply[1] for reply in self._ask_each([("state",)] * len(self._pool.members))]
        longest = max(len(next(iter(state["actions"].values()))) for state in states)

        def joined(name: str, axis: int) -> Tree:
            keys = states[0][name]
            return {key: np.concatenate([state[name][key] for state in states], axis) for key in keys}

        for state in states:
            state["actions"] = map_tree(lambda array: _lengthened(array, longest), state["actions"])
            state["rewards"] = _lengthened(state["rewards"], longest)
        return {
            "episode": np.concatenate([state["episode"] for state in states]),
            "length": np.concatenate([state["length"] for state in states]),
            "actions": joined("actions", 1),
            "rewards": np.concatenate([state["rewards"] for state in states], 1),
            "observation": joined("observation", 0),
            **({"acting": np.concatenate([state["acting"] for state in states])} if self.agents else {}),
            "memory": [each for state in states for each in state["memory"]],
        }

    def restore(self, seeds: EpisodeSeeds, state: dict[str, Any], out: Tree) -> None:
        """Replay the unfinished episodes of `state`; write the current observations into `out`.

        Warns and raises like `SerialVectorEnv.restore`.
        """
        check_count(state, self.num_envs // self._agent_rows)
        shares = [share_of_state(state, rows, self._agent_rows) for rows in self._rows()]
        self._ask_each([("restore", seeds, share) for share in shares])
        self._read("obs:", out)

    def memory(self) -> list[Memory]:
        """Return what each environment's wrappers remember across episodes."""
        replies = self._ask_each([("memory",)] * len(self._pool.members))
        return [each for _, share in replies for each in share]

    def load_memory(self, memory: list[Memory]) -> None:
        """Restore the result of `memory()`; environments without an entry keep their memory."""
        self._ask_each([("load_memory", memory[rows]) for rows in self._rows()])

    def close(self) -> None:
        """Close the environments and end the workers; safe to call twice."""
        self._finalizer()

    def _rows(self) -> list[slice]:
        """Return the numbers of each worker's environments, or copies."""
        shares = [member.share for member in self._pool.members]
        return [slice(share.first, share.first + share.count) for share in shares]

    def _ask_each(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Return the workers' replies to their commands. A warning of several workers is shown once."""
        replies = self._pool.ask(commands)
        given = {warning for reply in replies if reply[0] == "done" for warning in reply[1]}
        for message, category in sorted(given, key=str):
            warnings.warn(message, category, stacklevel=3)
        return replies

    def _read(self, prefix: str, out: Tree) -> None:
        put_rows(out, ..., part(self._pool.arrays, prefix, slice(None)))


def _pack(make: MakeEnv) -> bytes:
    try:
        return bytes(ForkingPickler.dumps(make))
    except (pickle.PicklingError, AttributeError, TypeError) as exc:
        raise worker.not_portable(exc) from exc


def _lengthened(array: np.ndarray, steps: int) -> np.ndarray:
    """Return `[T, …]` with zeros in front, so that all workers' records end at the same step."""
    return np.concatenate([np.zeros((steps - len(array), *array.shape[1:]), array.dtype), array])
