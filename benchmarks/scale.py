"""What the driver does for 16 to 1,024 workers: the real pool, the real driver and a real Ray, but no environments.

    python benchmarks/scale.py                                   16, 64, 256 and 1,024 workers
    python benchmarks/scale.py --workers 16 --workers 1024 --rollout-seconds 0.5

A few processes stand for all workers: each call waits as long as a rollout takes, then answers with a rollout that was
collected before. So calls, answers, parameters and queues are those of a cluster, and the work of the workers is not.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pickle
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import results
from maze_ray.config import RayConfig
from maze_ray.pool import RayPool
from maze_ray.worker import pack

from maze_core.collect.pools.dev import DevRunner
from maze_core.collect.pools.pooled_envs import PooledVectorEnv
from maze_core.collect.pools.workers import Shared
from maze_core.run.context import RunContext

PAGE, HOSTS, STEPS, UPDATES = "scale", 2, 20, 5
GATE = 2.0
"""Most driver time per rollout, relative to that with the fewest workers."""
HEADERS = [
    "driver",
    "workers",
    "rollouts/s",
    "driver ms/rollout",
    "driver ms/update",
    "parameters, kB/update",
    "most answers waiting",
    "gate",
]
INTRODUCTION = f"""
# How many workers a driver can serve

The real driver and the real pool of the runner `ray`, a real Ray on one machine, and simulated workers: each call waits
as long as a rollout takes and answers with a recorded rollout of {STEPS} steps of Pendulum-v1. Driver time is the
processor time of the driver's process, all its threads and Ray's among them, without learning. `ppo` collects as PPO
and A2C do: a rollout of each worker for an update, one environment each. `impala` learns from 8 rollouts at a time
while the workers go on. Parameters of up to 64 kB go with the first call of each worker after an update; larger ones
are put into Ray's store once, and copied once to each node.

An answer costs the driver the same with any number of workers (the gate: at most {GATE:g} times as much as with the
fewest). So what limits a run is the product: once driver milliseconds per rollout times rollouts per second is a second
per second, further workers wait, and longer rollouts or several environments for each worker help, because an answer
costs nearly the same whatever its length. On one machine the simulated workers share the processors with the driver,
which limits the rollouts per second long before that.

Made by `python benchmarks/scale.py`.
"""


@dataclass(frozen=True)
class Measured:
    """What one number of workers gave."""

    rollouts: int
    updates: int
    seconds: float
    driver_seconds: float
    parameter_bytes: int
    waiting: int


ROLLOUT = "rollout"


def command_of(job: Any) -> str:
    """Return what a job asks for."""
    return getattr(job, "command", ROLLOUT)


class Host:
    """A process that stands for many workers."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._answers: dict[str, Any] = {}

    async def learn(self, command: str, value: bytes) -> None:
        """Take what every such command is answered with."""
        self._answers[command] = pickle.loads(value)

    async def setup(self, number: int, task: bytes, theirs: dict[str, str], door: None) -> tuple[Any, ...]:
        """Answer as a worker that is ready."""
        return "ready", os.getpid(), "", False

    async def run(self, job: bytes, version: int, arrays: Any) -> tuple[Any, ...]:
        """Answer as the first worker did; only rollouts take time."""
        command = command_of(pickle.loads(job))
        value = self._answers[command]
        if command in (ROLLOUT, "gather"):
            await asyncio.sleep(self._seconds)
        return "result", *pack(replace(value, version=version) if hasattr(value, "version") else value)

    async def close(self) -> None:
        """Do nothing."""


class SimulatedPool(RayPool):
    """The pool of the runner `ray`, whose workers are simulated."""

    current: SimulatedPool
    seconds = 1.0

    def __init__(self, task: Any, count: int) -> None:
        self._task: Any = pickle.loads(pickle.dumps(task))
        self._task.setup(0)
        self._known: set[str] = set()
        self._arrays = Shared(0, {})
        self._hosts: list[Any] = []
        self.waiting = 0
        SimulatedPool.current = self
        super().__init__(task, count, RayConfig(name="ray"), 0.0)
        while len(self.pids) < count:
            self._receive(None)

    def _new_actor(self, number: int) -> Any:
        if not self._hosts:
            kind = self._ray.remote(Host).options(num_cpus=0, max_concurrency=4096)
            self._hosts = [kind.remote(self.seconds) for _ in range(HOSTS)]
        return self._hosts[number % HOSTS]

    def share(self, arrays: Any) -> int:
        self._arrays = Shared(1, arrays)
        self.parameter_bytes = sum(array.nbytes for array in arrays.values())
        return super().share(arrays)

    def submit(self, job: Any, *arguments: Any) -> int:
        self._record(job)
        return super().submit(job, *arguments)

    def submit_each(self, jobs: Any, *arguments: Any) -> Any:
        self._record(jobs[0])
        return super().submit_each(jobs, *arguments)

    def _record(self, job: Any) -> None:
        """Let the task answer each kind of job once, in this process."""
        command = command_of(job)
        if command not in self._known:
            self._known.add(command)
            value = pickle.dumps(self._task.run(job, self._arrays))
            self._ray.get([host.learn.remote(command, value) for host in self._hosts])

    def collect(self, timeout: float | None = None) -> Any:
        self.waiting = max(self.waiting, len(self._results) + len(self._arrived))
        return super().collect(timeout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, action="append", help="a number of workers; repeatable")
    parser.add_argument("--rollout-seconds", type=float, default=1.0, help="what a rollout takes (default 1)")
    options = parser.parse_args()
    SimulatedPool.seconds = options.rollout_seconds
    DevRunner.has_collectors = True
    DevRunner.default_workers = property(lambda runner: 10**6)  # type: ignore[assignment, method-assign]
    DevRunner.workers = lambda runner, task, count: SimulatedPool(task, count)  # type: ignore
    DevRunner.collecting_env = lambda runner, builder, num: PooledVectorEnv(builder, num, num, SimulatedPool)  # type: ignore
    for workers in options.workers or (16, 64, 256, 1024):
        for algorithm in ("ppo", "impala"):
            measured = measure(algorithm, workers)
            print(algorithm, workers, measured, flush=True)
            name = f"{algorithm} {workers}"
            rows = results.merge(PAGE, name, {"algorithm": algorithm, "workers": workers, **measured.__dict__})
            results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)
    results.show("How many workers a driver can serve", HEADERS, cells_of(rows))
    return 0 if all(passes(rows, row) for row in rows.values()) else 1


def measure(algorithm: str, workers: int) -> Measured:
    """Let the driver go through a few updates, without learning."""
    overrides: dict[str, Any] = {"algorithm.n_rollout_steps": STEPS, "evaluation.n_episodes": 1}
    # IMPALA accepts no more than 1,000 actors.
    count = {"ppo": {"algorithm.num_envs": workers}, "impala": {"algorithm.num_actors": min(workers, 1000)}}[algorithm]
    with RunContext(
        "Pendulum-v1", algorithm, overrides=overrides | count, run_dir=None, seed=1, silent=True, preset="none"
    ) as context:
        run = context.run

        def update() -> None:
            if algorithm == "ppo":
                run.algorithm._collector.collect()
            else:
                for _ in run.algorithm.batches():
                    pass

        updates = UPDATES if algorithm == "ppo" else max(UPDATES, 3 * workers // 8)
        for _ in range(max(1, updates // 3)):
            update()
        pool, steps = SimulatedPool.current, run.env_steps
        pool.waiting = 0
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(updates):
            update()
        seconds, driver = time.perf_counter() - began, time.process_time() - cpu
        return Measured((run.env_steps - steps) // STEPS, updates, seconds, driver, pool.parameter_bytes, pool.waiting)


def per_rollout(row: dict[str, Any]) -> float:
    """Driver milliseconds for each rollout."""
    return 1000 * row["driver_seconds"] / row["rollouts"]


def passes(rows: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether an answer costs no more than allowed beside the smallest number of workers."""
    same = [other for other in rows.values() if other["algorithm"] == row["algorithm"]]
    return per_rollout(row) <= GATE * per_rollout(min(same, key=lambda other: other["workers"]))


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table."""
    ordered = sorted(rows.values(), key=lambda row: (row["algorithm"] != "ppo", row["workers"]))
    return [
        [
            row["algorithm"],
            f"{row['workers']:,}",
            f"{row['rollouts'] / row['seconds']:,.0f}",
            f"{per_rollout(row):.2f}",
            f"{1000 * row['driver_seconds'] / row['updates']:,.1f}",
            f"{row['parameter_bytes'] / 1000:,.0f}",
            f"{row['waiting']:,}",
            "met" if passes(rows, row) else "missed",
        ]
        for row in ordered
    ]


if __name__ == "__main__":
    sys.exit(main())
