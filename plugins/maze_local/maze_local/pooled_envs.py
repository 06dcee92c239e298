"""N environments stepped by a pool of workers: in lockstep, whole episodes, or some steps at a time."""

from __future__ import annotations

import pickle
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import ConfigError, Rollout, RunError, Tree, take_rows
from maze_core.base.tree import put_rows
from maze_core.envs.recorded_state import check_count
from maze_local.env_task import (
    Assignment,
    Begun,
    EnvJob,
    EnvShare,
    EnvTask,
    Game,
    Progress,
    Stepped,
    info_columns_of,
    shares_of,
)
from maze_local.episode_log import EpisodeLog, share_of_state
from maze_local.joined_rollouts import joined
from maze_local.process_pool import ProcessPool
from maze_local.step_arrays import StepArrays, step_specs

if TYPE_CHECKING:
    from maze_core import ActingPolicy, EnvBuilder, EpisodeSeeds, Policy, Task
    from maze_core.base.seeding import EpisodePlan
    from maze_core.collect.pools.workers import Arrays, WorkerPool
    from maze_core.envs.checks import MakeEnv
    from maze_core.envs.vector import Episode, StepResult
    from maze_core.envs.wrappers import Memory

_PATIENCE = 10.0
"""Resetting and replaying may take this many times the time limit of a job."""
_SHORT = (EnvShare.step, EnvShare.gather, EnvShare.gather_on, EnvShare.play_on)
"""What has to answer within the time limit of a job."""
_SLICE = 1.0
"""Seconds after which a worker that plays tells how far it is; at most a tenth of a job's time limit."""
_LONG_SLICE = 10.0
"""The same for a worker that takes some steps."""


class PooledVectorEnv:
    """Steps environments on workers, each a contiguous share of them.

    The transitions equal those of `SerialVectorEnv` for the same seeds, and their states are interchangeable. The
    driver records the actions of unfinished episodes, so that another worker can replay them if one is lost. Where
    several agents act in an environment, its rows are on one worker, and all steps are in lockstep. The arrays of a
    step are in shared memory if the workers belong to a `ProcessPool`; else they are sent.

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
        builder: EnvBuilder | MakeEnv,
        num_envs: int,
        workers: int,
        start: Callable[[Task, int], WorkerPool],
        dumps: Callable[[Any], bytes] = pickle.dumps,
    ) -> None:
        self._count, self._dumps = num_envs, dumps
        shares = shares_of(num_envs, workers)
        self._moves = 0
        """The number of moves so far: of calls of `step`, `gather` and `take`."""
        self._envs = [slice(share.first, share.first + share.count) for share in shares]
        self._pool = start(EnvTask(builder, shares), len(shares))
        self._open = ExitStack()
        self._open.callback(self._pool.close)
        self._finalizer = weakref.finalize(self, self._open.close)
        kinds, memory = zip(*self._ask(EnvShare.kind, [()] * len(shares)), strict=True)
        self.observation_space, self.action_space, self.agents = kinds[0]
        if any(other != kinds[0] for other in kinds):
            self.close()
            raise ConfigError("the environments of a run must all have the same spaces", where="env")
        self._agent_rows = each = max(1, len(self.agents))
        self.num_envs = num_envs * each
        self._rows = [slice(envs.start * each, envs.stop * each) for envs in self._envs]
        self._specs = step_specs(self, info_columns_of(builder))
        self._steps: StepArrays | None = None
        self._episode_log = EpisodeLog(self.observation_space, self.action_space, num_envs, len(self.agents))
        self._first: list[Memory] = [each for share in memory for each in share]
        """What new wrappers remember."""
        self._pending: list[Memory] = []
        """Memory to load at the next reset; empty: keep the current one."""
        self._seeds: EpisodeSeeds | None = None
        """Of the episodes that have begun; None: `reset` comes next."""
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
        method, seeds = EnvShare.begin if self._seeds is None else EnvShare.reset, self._planned(seeds)
        self._begin(method, seeds, [self._pending[envs] for envs in self._envs], out)
        self._episode_log.begin()

    def step(self, actions: Tree, out: Tree) -> StepResult:
        """Step every environment once; write the next observations into `out`."""
        log, steps = self._episode_log, self._begun_steps()
        answers = self._stepped(steps, actions)
        self._moves += 1
        episodes: list[Episode] = []
        for envs, rows, answer in zip(self._envs, self._rows, answers, strict=True):
            if not answer:
                continue
            steps.take(rows, answer.sent)
            episodes += answer.episodes
            for number, memory in answer.memory.items():
                log.memory[envs.start + number] = memory
        result = steps.result(episodes)
        over = result.terminated | result.truncated if result.restarted is None else result.restarted
        log.add(take_rows(actions, None), result.reward[None], over[None, :: self._agent_rows])
        log.see(slice(0, self._count), steps.obs, result.acting)
        put_rows(out, ..., steps.obs)
        return result

    def state(self) -> dict[str, Any]:
        """Return the unfinished episodes, as `SerialVectorEnv.state` does for the same environments."""
        return self._episode_log.state()

    def restore(self, seeds: EpisodeSeeds, state: dict[str, Any], out: Tree) -> None:
        """Replay the unfinished episodes of `state`; write the current observations into `out`.

        Warns and raises like `SerialVectorEnv.restore`.
        """
        check_count(state, self._count)
        self._begin(EnvShare.restore, self._planned(seeds), [self._share_of(state, envs) for envs in self._envs], out)
        self._episode_log.load(state)

    def memory(self) -> list[Memory]:
        """Return what the wrappers of each environment remember across episodes."""
        if self._pending or self._seeds is None:
            return self._pending or self._first
        return [each for share in self._ask(EnvShare.memory, [(self._moves,)] * len(self._envs)) for each in share]

    def load_memory(self, memory: list[Memory]) -> None:
        """Restore the result of `memory()` at the next reset."""
        self._pending = memory

    def instruct(self, plan: EpisodePlan) -> None:
        """Let the episodes that begin from now on have these parameters."""
        self._episode_log.parameters.instruct(plan)
        if self._seeds is not None:
            self._seeds = replace(self._seeds, plan=plan)
            self._ask(EnvShare.instruct, [(self._moves, plan)] * len(self._envs))

    def close(self) -> None:
        """Close the environments and end the workers; safe to call twice."""
        self._finalizer()

    # Several steps in one job of each worker

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
        content = self._pickled(game)
        if content is None:
            return None
        self._seeds, self._pending = None, [[] for _ in range(self._count)]
        further = EnvShare.play_on, (min(_SLICE, self._pool.job_timeout / 10),)
        # `play` takes one step, so that the longer patience that a reset needs ends there.
        games = [(content,)] * len(self._envs)
        results = self._ask(EnvShare.play, games, look=lambda share, steps: look(steps), further=further)
        return None if any(result is False for result in results) else results

    def assign(self, assignment: Assignment) -> bool:
        """Tell the workers what to do with their environments in `gather`.

        Returns False if it cannot be sent, or not be read by the workers.
        """
        content = self._pickled(assignment)
        if content is None or not all(self._ask(EnvShare.assign, [(content,)] * len(self._envs))):
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
        return self._taken([None] * len(self._rows), look)

    def take(self, actions: Tree, look: Callable[[int], None]) -> Rollout:
        """Take some steps with these actions, leaves [T, N, …], in environment units; `look`: as for `gather`."""
        return self._taken([take_rows(actions, np.s_[:, rows]) for rows in self._rows], look)

    def _taken(self, actions: Sequence[Tree | None], look: Callable[[int], None]) -> Rollout:
        """Return the steps that the workers took, and keep the unfinished episodes."""
        seconds = min(_LONG_SLICE, self._pool.job_timeout / 10)
        before = [0] * len(self._rows)

        def count(share: int, steps: int) -> None:
            rows = self._rows[share]
            look((steps - before[share]) * (rows.stop - rows.start))
            before[share] = steps

        given = [(self._moves, seconds, each) for each in actions]
        further = EnvShare.gather_on, (self._moves, seconds)
        parts = self._ask(EnvShare.gather, given, look=count, further=further)
        self._moves += 1
        self._rollout = whole = joined(parts, self._rollout)
        self._episode_log.add(whole.env_actions, whole.rewards, whole.ended)
        self._episode_log.see(slice(0, self._count), take_rows(whole.obs, -1))
        self._episode_log.memory = list(whole.carry)
        return whole

    def _pickled(self, work: Game | Assignment) -> bytes | None:
        try:
            return self._dumps(work)
        except (pickle.PicklingError, AttributeError, TypeError):
            return None

    def _planned(self, seeds: EpisodeSeeds) -> EpisodeSeeds:
        """Return the seeds with the parameters of the episodes, which go to the workers with them."""
        return self._episode_log.parameters.planned(seeds)

    # Jobs

    def _stepped(self, steps: StepArrays, actions: Tree) -> list[Stepped | tuple[()]]:
        """Let every share take a step; return what each answered: empty if there is nothing but the shared arrays."""
        if not isinstance(self._pool, ProcessPool):
            return self._ask(EnvShare.step, [(self._moves, take_rows(actions, rows)) for rows in self._rows])
        put_rows(steps.actions, ..., actions)
        answers = self._pool.call_each(self._moves)
        lost = [share for share, answer in enumerate(answers) if answer is None]
        if lost:
            again = self._ask(EnvShare.step, [(self._moves, None)] * len(lost), lost)
            for share, answer in zip(lost, again, strict=True):
                answers[share] = answer
        return answers

    def _begin(self, method: Callable[..., Any], seeds: EpisodeSeeds, given: Sequence[Any], out: Tree) -> None:
        """Let each share begin episodes; `given`: what wrappers remember, or the recorded state."""
        if self._steps is None:
            make = StepArrays.shared if isinstance(self._pool, ProcessPool) else StepArrays.private
            self._steps = make(self._specs, self.num_envs)
            self._open.callback(self._steps.close)
        answers = self._ask(method, [(self._moves, self._steps.block, seeds, each) for each in given])
        self._seeds, self._pending = seeds, []
        for envs, answer in zip(self._envs, answers, strict=True):
            self._place(envs, answer)
        put_rows(out, ..., self._episode_log.observation)
        _repeat_warnings(answers)

    def _begun_steps(self) -> StepArrays:
        if not self._finalizer.alive:
            raise RunError("the environments are closed")
        if self._steps is None:
            raise RunError("reset the environments before the first step")
        return self._steps

    def _place(self, envs: slice, begun: Begun) -> None:
        """Record where some environments stand, which had to begin other episodes if theirs cannot be replayed."""
        self._episode_log.place(envs, begun.position, begun.obs, begun.memory)

    def _share_of(self, state: dict[str, Any], envs: slice) -> dict[str, Any]:
        return share_of_state(state, envs, self._agent_rows)

    def _ask(
        self,
        method: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        shares: Sequence[int] | None = None,
        look: Callable[[int, int], None] = lambda share, steps: None,
        further: tuple[Callable[..., Any], tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        """Return what a method of `EnvShare` returns for each share. One that has lost its worker is restored first.

        Args:
            method: to call.
            arguments: of each share.
            shares: their numbers; None: all of them.
            look: called with a share's number and how far it is, where its answer is `Progress`.
            further: the method that goes on then, and its arguments.
        """
        jobs = [
            EnvJob(share, method, given)
            for share, given in zip(range(len(arguments)) if shares is None else shares, arguments, strict=True)
        ]
        numbers = self._pool.submit_each(jobs, _patience(method)) if shares is None else map(self._submit, jobs)
        open_jobs = dict(zip(numbers, jobs, strict=True))
        replays: dict[int, EnvJob] = {}
        """Jobs that restore a share, and what it has to do afterwards."""
        answers: dict[int, Any] = {}
        while open_jobs or replays:
            result = self._pool.collect()
            if result is None:
                raise RunError("the workers lost a job")
            number, answer = result.job, result.value
            if number in replays:
                job = replays.pop(number)
                self._place(self._envs[job.share], answer)
                _repeat_warnings([answer])
                open_jobs[self._submit(job)] = job
                continue
            if number not in open_jobs:  # of a call that was given up, such as after Ctrl-C
                continue
            job = open_jobs.pop(number)
            if answer is None and method is not EnvShare.play:
                replays[self._submit(self._restoration(job.share))] = job
            elif answer is None:  # a game begins anew
                open_jobs[self._submit(job)] = job
            elif isinstance(answer, Progress) and further is not None:
                look(job.share, answer.steps)
                open_jobs[self._submit(EnvJob(job.share, *further))] = job
            else:
                answers[job.share] = answer
        return [answers[job.share] for job in jobs]

    def _restoration(self, share: int) -> EnvJob:
        """Return the job that lets the share's current worker replay its unfinished episodes."""
        if self._seeds is None:
            raise RunError("reset the environments before the first step")
        state = self._share_of(self.state(), self._envs[share])
        arguments = self._moves, self._begun_steps().block, self._seeds, state, self._assignment
        return EnvJob(share, EnvShare.restore, arguments)

    def _submit(self, job: EnvJob) -> int:
        return self._pool.submit(job, job.share, _patience(job.method))


def _patience(method: Callable[..., Any]) -> float:
    return 1.0 if method in _SHORT else _PATIENCE


def _repeat_warnings(begun: Sequence[Begun]) -> None:
    """Repeat warnings of the workers, each once."""
    for message, category in sorted({said for each in begun for said in each.warnings}, key=str):
        warnings.warn(message, category, stacklevel=4)
