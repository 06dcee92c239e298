"""N environments stepped by a pool of workers: in lockstep, whole episodes, or some steps at a time."""

from __future__ import annotations

import pickle
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.tree import Tree, concat_trees, put_rows, take_rows
from maze_core.data.rollout import Rollout
from maze_core.envs.recorded_state import check_count, share_of_state
from maze_core.envs.vector import StepResult
from maze_local.episode_log import EpisodeLog
from maze_local.joined_rollouts import joined
from maze_local.lockstep.worker import shares_of
from maze_local.worker_envs_task import Assignment, EnvJob, EnvTask, Game

if TYPE_CHECKING:
    from collections.abc import Callable

    from maze_core.base.seeding import EpisodeSeeds
    from maze_core.collect.policies.base import ActingPolicy
    from maze_core.collect.pools.workers import Arrays, Task, WorkerPool
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.vector import Episode
    from maze_core.envs.wrappers.carry import Memory
    from maze_core.models.policy import Policy

_PATIENCE = 10.0
"""Resetting and replaying may take this many times the time limit of a job."""
_SLICE = 1.0
"""Seconds after which a worker that plays tells how far it is; at most a tenth of a job's time limit."""
_LONG_SLICE = 10.0
"""The same for a worker that takes some steps."""


class PooledVectorEnv:
    """Steps environments on workers, each a contiguous share of them.

    The transitions equal those of `SerialVectorEnv` for the same seeds, and their states are interchangeable. The
    driver records the actions of unfinished episodes, so that another worker can replay them if one is lost. Where
    several agents act in an environment, its rows are on one worker, and all steps are in lockstep.

    Args:
        builder: builds environment `index`; is sent to the workers.
        num_envs: total number of environments; of copies, where several agents have a row each.
        workers: number of workers, at most one per environment.
        start: starts that many workers for a task.
        dumps: pickles games.

    Raises:
        ConfigError: as for `SerialVectorEnv`, or starting the workers raises it.
        RunError: an environment raised (with its traceback), or `WorkerPool.collect` raises it.
    """

    def __init__(
        self,
        builder: EnvBuilder,
        num_envs: int,
        workers: int,
        start: Callable[[Task, int], WorkerPool],
        dumps: Callable[[Any], bytes] = pickle.dumps,
    ) -> None:
        self._count, self._dumps = num_envs, dumps
        shares = shares_of(num_envs, workers)
        count = len(shares)
        self._moves = 0
        """The number of moves so far: of calls of `step` and `gather`."""
        self._envs = [slice(share.first, share.first + share.count) for share in shares]
        self._pool = start(EnvTask(builder, shares), count)
        self._finalizer = weakref.finalize(self, self._pool.close)
        replies = self._ask([("spaces",)] * count)
        spaces = [reply[:3] for reply in replies]
        self.observation_space, self.action_space, self.agents = spaces[0]
        if any(other != spaces[0] for other in spaces):
            self.close()
            raise ConfigError("the environments of a run must all have the same spaces", where="env")
        self._agent_rows = each = max(1, len(self.agents))
        self.num_envs = num_envs * each
        self._rows = [slice(envs.start * each, envs.stop * each) for envs in self._envs]
        self._episode_log = EpisodeLog(self.observation_space, self.action_space, num_envs, len(self.agents))
        self._first: list[Memory] = [each for *_, share in replies for each in share]
        """What new wrappers remember."""
        self._pending: list[Memory] = []
        """Memory to load at the next reset; empty: keep the current one."""
        self._seeds: EpisodeSeeds | None = None
        self._assignment: bytes | None = None
        """What the workers have been told to do with the environments."""
        self._rollout: Rollout | None = None
        """The last one, whose arrays the next one overwrites."""

    @property
    def workers(self) -> WorkerPool:
        """The workers that step the environments, for monitoring."""
        return self._pool

    def reset(self, seeds: EpisodeSeeds, out: Tree) -> None:
        """Begin episode 0 everywhere; write the first observations into `out` (leaves `[N, …]`)."""
        # After the loss of a worker, another one first replays the earlier episodes, which wrappers remember.
        command = "begin" if self._seeds is None else "reset"
        self._begin(seeds, [(command, seeds, self._pending[envs]) for envs in self._envs], out)
        self._episode_log.begin()
        self._pending = []

    def step(self, actions: Tree, out: Tree) -> StepResult:
        """Step every environment once; write the next observations into `out`."""
        replies = self._ask([("step", take_rows(actions, rows)) for rows in self._rows])
        self._moves += 1
        result = _joined([result for result, _, _ in replies])
        taken = take_rows(actions, None)
        over = result.terminated | result.truncated if result.restarted is None else result.restarted
        self._episode_log.add(taken, result.reward[None], over[None, :: self._agent_rows])
        for envs, (part, obs, begun) in zip(self._envs, replies, strict=True):
            self._episode_log.see(envs, obs, part.acting)
            for number, memory in begun.items():
                self._episode_log.memory[envs.start + number] = memory
        self._write(out)
        return result

    def state(self) -> dict[str, Any]:
        """Return the unfinished episodes, as `SerialVectorEnv.state` does for the same environments."""
        return self._episode_log.state()

    def restore(self, seeds: EpisodeSeeds, state: dict[str, Any], out: Tree) -> None:
        """Replay the unfinished episodes of `state`; write the current observations into `out`.

        Warns and raises like `SerialVectorEnv.restore`.
        """
        check_count(state, self._count)
        self._begin(seeds, [("restore", seeds, self._share_of(state, envs)) for envs in self._envs], out)
        self._episode_log.load(state)
        self._pending = []

    def memory(self) -> list[Memory]:
        """Return what the wrappers of each environment remember across episodes."""
        if self._pending or self._seeds is None:
            return self._pending or self._first
        return [each for share in self._ask([("memory",)] * len(self._rows)) for each in share]

    def load_memory(self, memory: list[Memory]) -> None:
        """Restore the result of `memory()` at the next reset."""
        self._pending = memory

    def evaluate(
        self, policy: Policy | ActingPolicy, look: Callable[[int], None], memory: list[Memory], **game: Any
    ) -> list[Episode] | None:
        """Let the workers play an evaluation; the arguments are those of `evaluate_on_workers`."""
        from maze_local.worker_evaluation import evaluate_on_workers

        return evaluate_on_workers(self, policy, look, memory, **game)

    def play(self, game: Game, look: Callable[[int], None]) -> list[Any] | None:
        """Let every worker play a game with its share; return the results in order.

        `reset` has to follow, after `load_memory` where the environments remember earlier episodes.

        Args:
            game: is sent to the workers.
            look: called about every second of each worker with what `advance` returned. It may raise.

        Returns:
            None if the game cannot be sent, or not be read by the workers.
        """
        try:
            content = self._dumps(game)
        except (pickle.PicklingError, AttributeError, TypeError):
            return None
        self._seeds, self._pending = None, [[] for _ in range(self._count)]
        seconds = min(_SLICE, self._pool.job_timeout / 10)
        questions = [EnvJob(share, "play", (0.0, content)) for share in range(len(self._rows))]
        # They begin with one step, so that the longer patience that a reset needs ends there.
        numbers = self._pool.submit_each(questions, _PATIENCE)
        jobs = dict(zip(numbers, range(len(numbers)), strict=True))
        results: dict[int, Any] = {}
        while jobs:
            answer = self._pool.collect()
            if answer is None:
                raise RunError("the workers lost a job")
            share = jobs.pop(answer.job, None)
            if share is None:  # of a game that was given up
                continue
            if answer.value is None:  # a new worker
                jobs[self._submit(share, "play", 0.0, content)] = share
                continue
            (value,) = answer.value
            if isinstance(value, int):
                look(value)
                jobs[self._submit(share, "go on", seconds)] = share
            else:
                results[share] = value
        if any(value is None for value in results.values()):
            return None
        return [results[share] for share in range(len(self._rows))]

    def assign(self, assignment: Assignment) -> bool:
        """Tell the workers what to do with their environments in `gather`.

        Returns False if it cannot be sent, or not be read by the workers.
        """
        try:
            content = self._dumps(assignment)
        except (pickle.PicklingError, AttributeError, TypeError):
            return False
        if not all(self._ask([("assign", content)] * len(self._rows))):
            return False
        self._assignment = content
        return True

    def gather(self, arrays: Arrays, look: Callable[[int], None]) -> Rollout:
        """Let every worker take the next steps of the assignment; the next call overwrites the arrays returned.

        Args:
            arrays: are shared with the workers; always of the same names, shapes and types.
            look: called now and then with the number of steps, of all environments, since the last call.
        """
        self._pool.share(arrays)
        return self._taken([("gather", self._long_slice)] * len(self._rows), look)

    def take(self, actions: Tree, look: Callable[[int], None]) -> Rollout:
        """Take some steps with these actions, leaves [T, N, …], in environment units; `look`: as for `gather`."""
        return self._taken(
            [("gather", self._long_slice, take_rows(actions, np.s_[:, rows])) for rows in self._rows], look
        )

    @property
    def _long_slice(self) -> float:
        return min(_LONG_SLICE, self._pool.job_timeout / 10)

    def _taken(self, commands: list[tuple[Any, ...]], look: Callable[[int], None]) -> Rollout:
        """Return the steps that the workers took, and keep the unfinished episodes."""
        parts = self._ask(commands, look)
        self._moves += 1
        self._rollout = whole = joined(parts, self._rollout)
        self._episode_log.add(whole.env_actions, whole.rewards, whole.ended)
        self._episode_log.see(slice(0, self._count), take_rows(whole.obs, -1))
        self._episode_log.memory = list(whole.carry)
        return whole

    def close(self) -> None:
        """Close the environments and end the workers; safe to call twice."""
        self._finalizer()

    def _begin(self, seeds: EpisodeSeeds, commands: list[tuple[Any, ...]], out: Tree) -> None:
        replies = self._ask(commands)
        self._seeds = seeds
        for envs, reply in zip(self._envs, replies, strict=True):
            self._place(envs, reply)
        self._write(out)
        _repeat_warnings([reply[-1] for reply in replies])

    def _place(self, envs: slice, reply: tuple[Any, ...]) -> None:
        """Record where some environments stand, which had to begin other episodes if theirs cannot be replayed."""
        obs, stand, memory, _ = reply
        self._episode_log.place(envs, stand, obs, memory)

    def _share_of(self, state: dict[str, Any], envs: slice) -> dict[str, Any]:
        return share_of_state(state, envs, self._agent_rows)

    def _ask(self, commands: list[tuple[Any, ...]], look: Callable[[int], None] = lambda steps: None) -> list[Any]:
        """Return the replies to each share's command. A share that has lost its worker is restored first.

        `look`: as for `gather`, whose replies may be preceded by numbers of steps.
        """
        questions = [
            EnvJob(share, command, tuple(rest), self._moves) for share, (command, *rest) in enumerate(commands)
        ]
        numbers = self._pool.submit_each(questions, _patience(commands[0][0]))
        jobs = dict(zip(numbers, range(len(numbers)), strict=True))
        replays: dict[int, int] = {}
        replies: dict[int, Any] = {}
        steps = [0] * len(commands)
        while jobs or replays:
            result = self._pool.collect()
            if result is None:
                raise RunError("the workers lost a job")
            if result.job in replays:
                share = replays.pop(result.job)
                self._place(self._envs[share], result.value)
                _repeat_warnings([result.value[-1]])
                jobs[self._submit(share, *commands[share])] = share
                continue
            share = jobs.pop(result.job, -1)
            if share < 0:  # of a game that was given up
                continue
            command, *arguments = commands[share]
            if result.value is None:
                replays[self._submit(share, *self._restoration(share))] = share
            elif command == "gather" and isinstance(result.value, int):
                rows = self._rows[share]
                look((result.value - steps[share]) * (rows.stop - rows.start))
                steps[share] = result.value
                jobs[self._submit(share, "gather on", arguments[0])] = share
            else:
                replies[share] = result.value
        return [replies[share] for share in range(len(commands))]

    def _restoration(self, share: int) -> tuple[Any, ...]:
        """Return the command that lets the share's current worker replay its unfinished episodes."""
        if self._seeds is None:
            raise RunError("reset the environments before the first step")
        assignment = () if self._assignment is None else (self._assignment,)
        return "restore", self._seeds, self._share_of(self.state(), self._envs[share]), *assignment

    def _submit(self, share: int, command: str, *arguments: Any) -> int:
        return self._pool.submit(EnvJob(share, command, arguments, self._moves), share, _patience(command))

    def _write(self, out: Tree) -> None:
        put_rows(out, ..., self._episode_log.observation)


def _patience(command: str) -> float:
    return 1.0 if command in ("step", "go on", "gather", "gather on") else _PATIENCE


def _joined(results: list[StepResult]) -> StepResult:
    """Return the results of several shares as one, in order."""
    terminated = np.concatenate([result.terminated for result in results])
    truncated = np.concatenate([result.truncated for result in results])
    last = [result.final_obs for result in results if result.final_obs is not None]
    return StepResult(
        reward=np.concatenate([result.reward for result in results]),
        terminated=terminated,
        truncated=truncated,
        valid=np.concatenate([result.valid for result in results]),
        final_indices=np.flatnonzero(terminated | truncated),
        final_obs=concat_trees(last) if last else None,
        episodes=[episode for result in results for episode in result.episodes],
        has_filler=any(result.has_filler for result in results),
        acting=_both("acting", results),
        restarted=_both("restarted", results),
        info=concat_trees([result.info for result in results]),
    )


def _both(name: str, results: list[StepResult]) -> np.ndarray | None:
    """Return what results say of several agents; None where each environment has one."""
    if getattr(results[0], name) is None:
        return None
    return np.concatenate([getattr(result, name) for result in results])


def _repeat_warnings(said: list[list[tuple[str, type[Warning]]]]) -> None:
    """Repeat warnings of the workers, each once."""
    for message, category in sorted({each for several in said for each in several}, key=str):
        warnings.warn(message, category, stacklevel=4)
