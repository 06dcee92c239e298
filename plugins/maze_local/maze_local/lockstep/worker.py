"""The worker process: steps its share of the environments on commands from a pipe."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Sequence
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from maze_core.base.errors import ConfigError
from maze_core.base.tree import Tree, subtree, take_rows
from maze_core.envs.in_process import in_turn
from maze_core.envs.spaces import Specs, space_specs
from maze_core.envs.vector import Share, agents_of
from maze_local.processes import begin_worker, errors_told
from maze_local.shared_tree import SharedTree, scalars, with_prefix

STEP = b"step"
"""The command of each step, sent as plain bytes; the reply is NOTHING unless an episode ended."""
NOTHING = b"-"


def shares_of(num_envs: int, workers: int) -> list[Share]:
    """Return the share of each worker: contiguous, nearly equal, and none without an environment."""
    count = min(num_envs, workers)
    edges = [num_envs * k // count for k in range(count + 1)]
    return [Share(a, b - a, num_envs) for a, b in pairwise(edges)]


def block_specs(
    observation_space: Any, action_space: Any, agents: tuple[str, ...], info_columns: Sequence[str] = ()
) -> Specs:
    """Return the leaves that workers and driver share: actions, current and last observations, rewards and flags."""
    of_agents = scalars(valid=np.bool_, acting=np.bool_, restarted=np.bool_) if agents else {}
    observations = space_specs(observation_space, "observation")
    return {
        **with_prefix("action:", space_specs(action_space, "action")),
        **with_prefix("obs:", observations),
        **with_prefix("final:", observations),
        **scalars(reward=np.float32, terminated=np.bool_, truncated=np.bool_),
        **of_agents,
        **with_prefix("info:", scalars(**dict.fromkeys(info_columns, np.float32))),
    }


def part(arrays: Tree, prefix: str, rows: slice) -> Tree:
    """Return the leaves under a prefix, as views of some rows."""
    return take_rows(subtree(arrays, prefix), rows)


def info_columns_of(make: Any) -> tuple[str, ...]:
    """Return the numbers of `info` that are read."""
    return getattr(make, "info_columns", ())


def main(pipe: Connection, builder: bytes, share: Share) -> None:
    """Run a worker until it receives `close`, its driver exits, or an environment fails."""
    begin_worker(stays=True)
    with errors_told(pipe):
        _Worker(pipe, _unpack(builder), share).serve()


def not_portable(exc: Exception) -> ConfigError:
    """Return the error for a factory that cannot be sent to another process."""
    return ConfigError(
        f"the environment cannot be built in worker processes: {exc}",
        where="runner",
        hint="Define its factory at the top level of an importable module, or step it in this process: --runner dev",
    )


def _unpack(builder: bytes) -> Any:
    try:
        return pickle.loads(builder)  # noqa: S301 — sent by the driver, never read from a file
    except (AttributeError, ImportError) as exc:
        raise not_portable(exc) from exc


class _Worker:
    def __init__(self, pipe: Connection, builder: Any, share: Share) -> None:
        self._pipe, self._share = pipe, share
        self._env = in_turn(builder, share.count, share.first)
        self._info_columns = info_columns_of(builder)
        self._memory: SharedTree | None = None

    def serve(self) -> None:
        """Answer the driver's commands."""
        agents = agents_of(self._env)
        spaces = (self._env.observation_space, self._env.action_space, agents)
        self._pipe.send(("spaces", *spaces))
        _, name = self._pipe.recv()
        agent_rows = max(1, len(agents))
        self._memory = SharedTree(block_specs(*spaces, self._info_columns), self._share.total * agent_rows, name)
        rows = slice(self._share.first * agent_rows, (self._share.first + self._share.count) * agent_rows)
        self._arrays: Tree = take_rows(self._memory.arrays, rows)
        self._obs = part(self._arrays, "obs:", slice(None))
        self._final = part(self._arrays, "final:", slice(None))
        self._actions = part(self._arrays, "action:", slice(None))
        self._pipe.send(("attached",))
        try:
            while self._answer(self._pipe.recv_bytes()):
                pass
        finally:
            self._env.close()
            self._arrays, self._obs, self._final, self._actions = {}, {}, {}, {}
            self._memory.close()

    def _answer(self, command: bytes) -> bool:
        if command == STEP:
            self._pipe.send_bytes(self._step())
            return True
        name, *arguments = pickle.loads(command)  # noqa: S301 — sent by the driver
        if name == "close":
            return False
        if name in ("state", "memory"):
            self._pipe.send((name, self._env.state() if name == "state" else self._env.memory()))
            return True
        if name == "load_memory":
            self._env.load_memory(*arguments)
            self._pipe.send(("done", []))
            return True
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            begin: Any = self._env.reset if name == "reset" else self._env.restore
            begin(*arguments, self._obs)
        self._pipe.send(("done", [(str(each.message), each.category) for each in caught]))
        return True

    def _step(self) -> bytes:
        result = self._env.step(self._actions, self._obs)
        self._arrays["reward"][:] = result.reward
        self._arrays["terminated"][:] = result.terminated
        self._arrays["truncated"][:] = result.truncated
        if result.acting is not None:
            for name in ("valid", "acting", "restarted"):
                self._arrays[name][:] = getattr(result, name)
        for name, values in result.info.items():
            self._arrays["info:" + name][:] = values
        if result.final_obs is None:
            return NOTHING
        for key, array in self._final.items():
            array[result.final_indices] = result.final_obs[key]
        return pickle.dumps(("ended", result.episodes))
