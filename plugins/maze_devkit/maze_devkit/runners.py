"""The checks of runners: results must not depend on where environments and workers run."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import EnvBuilder, EpisodeSeeds, Purpose, RunError
from maze_core.collect.pools.dev import DevConfig, DevRunner
from maze_core.envs.spaces import allocate, space_specs
from maze_devkit.envs import FailingEnv
from maze_devkit.findings import Check, Failed
from maze_devkit.probes import Walk
from maze_devkit.process import left_alone
from maze_devkit.subject import MakeEnv, Subject

if TYPE_CHECKING:
    from maze_core import Shared, VectorEnv
    from maze_core.collect.pools.runner import Runner
    from maze_core.collect.pools.workers import WorkerPool

_ENVS, _STEPS = 3, 40


def _builder(subject: Subject, make: MakeEnv) -> EnvBuilder:
    return EnvBuilder(subject.source(make), seed=1)


@contextmanager
def _vector_env(runner: Runner, builder: EnvBuilder) -> Iterator[VectorEnv]:
    with closing(runner.vector_env(builder, _ENVS)) as env:
        yield env


def _transitions(runner: Runner, builder: EnvBuilder) -> list[list[np.ndarray]]:
    """Return all outputs for a fixed sequence of actions."""
    seeds, rng = EpisodeSeeds(1, Purpose.TRAIN_EPISODES), np.random.default_rng(1)
    rows = []
    with _vector_env(runner, builder) as env:
        out = allocate(space_specs(env.observation_space, "observation"), (_ENVS,))
        env.reset(seeds, out)
        rows.append([leaf.copy() for leaf in out.values()])
        for _ in range(_STEPS):
            result = env.step({"action": rng.integers(3, size=_ENVS)}, out)
            arrays = [result.reward, result.terminated, result.truncated, result.valid, result.final_indices]
            final = list((result.final_obs or {}).values())
            rows.append([np.array(array) for array in (*out.values(), *arrays, *final)])
    return rows


def _environments(subject: Subject) -> None:
    builder = _builder(subject, Walk)
    wanted = _transitions(DevRunner(DevConfig()), builder)
    for step, (mine, theirs) in enumerate(zip(_transitions(subject.build(), builder), wanted, strict=True)):
        if len(mine) != len(theirs) or not all(map(np.array_equal, mine, theirs)):
            raise Failed(f"at step {step} the transitions differ from those of the runner dev")


def _default_workers(subject: Subject) -> None:
    value = subject.build().default_workers
    if not isinstance(value, int) or value < 1:
        raise Failed(f"default_workers is {value!r}, not a positive number")


def _failures(subject: Subject) -> None:
    builder = _builder(subject, functools.partial(FailingEnv, "raise"))
    try:
        _transitions(subject.build(), builder)
    except RunError as error:
        if "the wheel came off" not in _told(error):
            raise Failed(f"an environment raised an error 'the wheel came off', but the run reports {error}") from error
    else:
        raise Failed("an environment raised an error, but the run did not fail")


def _told(error: RunError) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", ()), repr(error.__cause__)])


class Sums:
    """A task: returns the sum of the job and the shared arrays; the job `fail` fails."""

    def setup(self, worker: int) -> None:
        """Do nothing."""

    def run(self, job: Any, shared: Shared) -> Any:
        """Return the sum."""
        if job == "fail":
            raise ZeroDivisionError("the wheel came off")
        return np.full(3, job) + shared.arrays["x"], shared.version

    def state(self) -> dict[str, Any]:
        """Do nothing."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _workers(subject: Subject) -> None:
    with closing(subject.build().workers(Sums(), 2)) as pool:
        if pool.num_workers != 2:
            raise Failed(f"a pool of two workers reports {pool.num_workers}")
        version = pool.share({"x": np.arange(3.0)})
        numbers = {pool.submit(job): job for job in range(5)}
        for _ in range(5):
            result = pool.collect(60.0)
            if result is None:
                raise Failed("a job has no result after a minute")
            job = numbers.pop(result.job)
            if not np.array_equal(result.value[0], np.full(3, job) + np.arange(3.0)) or result.value[1] != version:
                raise Failed(f"job {job} returned {result.value!r:.80} for the shared version {version}")
        if pool.collect(0.1) is not None:
            raise Failed("a result belongs to no job")
        pool.close()


def _worker_failures(subject: Subject) -> None:
    with closing(subject.build().workers(Sums(), 1)) as pool:
        pool.share({"x": np.arange(3.0)})
        pool.submit("fail")
        try:
            _collect(pool)
        except RunError as error:
            if "the wheel came off" not in _told(error):
                raise Failed(f"a task raised an error 'the wheel came off', but the run reports {error}") from error
        else:
            raise Failed("a task raised an error, but `collect` did not raise")


def _collect(pool: WorkerPool) -> None:
    pool.collect(60.0)


def _global_state(subject: Subject) -> None:
    with left_alone("stepping environments"):
        _transitions(subject.build(), _builder(subject, Walk))


CHECKS = (
    Check(
        "default-workers",
        "`default_workers` is a positive number.",
        "It sets the size of tasks that any number of workers can share.",
        "Use the number of cores by default.",
        _default_workers,
    ),
    Check(
        "environments",
        "The transitions are bit-equal to those of the runner `dev`.",
        "The place where environments are stepped must not change the result.",
        "Seed each episode by `seeds(index, episode)`, keep the order of environments, and return the final "
        "observation of every episode.",
        _environments,
    ),
    Check(
        "failures",
        "An environment that raises ends the run with a RunError that quotes the exception.",
        "A hang, a silent restart or an error without a reason is hard to debug.",
        "Catch the error where the environment is stepped, send its traceback, and raise RunError from it.",
        _failures,
    ),
    Check(
        "workers",
        "Workers return one result per job, computed with the parameters that were shared last.",
        "Otherwise algorithms lose data, or learn from data of old policies.",
        "Compare with `WorkerPool` in maze_core/collect/pools/workers.py.",
        _workers,
    ),
    Check(
        "worker_failures",
        "If a task raises, `collect` raises a RunError that quotes the exception.",
        "Otherwise the learner waits for ever.",
        "Send the traceback with the result, and raise RunError in `collect`.",
        _worker_failures,
    ),
    Check(
        "global_state",
        "It leaves random states, threads, signal handlers, environment variables and the working directory alone.",
        "Otherwise two runs in one process affect each other.",
        "End in `close` everything that you start.",
        _global_state,
        alone=True,
    ),
)
"""The checks of runners."""
