"""What the driver does for 16 to 1,024 workers: the real pool, the real driver and a real Ray, but no environments.

    python benchmarks/scale.py                                   16, 64, 256 and 1,024 workers in 16 processes
    python benchmarks/scale.py --workers 256 --hosts 256         each in a process of its own
    python benchmarks/scale.py --workers 16 --step-ms 1          rollouts of steps that take so long

Small processes stand for all workers: each call waits as long as a rollout takes, then answers with a rollout that was
collected before. So calls, answers, parameters, queues and connections are those of a cluster, and the work of the
workers is not.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import hosts
import results
from maze_ray.config import RayConfig
from maze_ray.pool import RayPool
from maze_ray.worker import pack

from maze_core.collect.pools.dev import DevRunner
from maze_core.collect.pools.pooled_envs import PooledVectorEnv
from maze_core.collect.pools.workers import Shared
from maze_core.run.context import RunContext

PAGE, STEPS, UPDATES = "scale", 20, 5
ALGORITHMS = ("ppo", "impala", "sac")
ENVS = {"ppo": 1, "impala": 1, "sac": 2}
"""Environments of each worker: those of SAC take steps on their own from two on."""
GATE = 2.0
"""Most driver time per rollout, relative to that with the fewest workers."""
HEADERS = [
    "driver",
    "workers",
    "processes",
    "a rollout takes, s",
    "rollouts/s",
    "driver ms/rollout",
    "driver ms/update",
    "sent, kB/rollout",
    "most answers waiting",
    "1 ms steps: workers",
    "gate",
]
INTRODUCTION = f"""
# How many workers a driver can serve

The real driver and the real pool of the runner `ray`, a real Ray on one machine, and simulated workers, spread over so
many processes, each of which is a connection of the driver: each call waits as long as a rollout takes and answers with
a recorded rollout of {STEPS} steps of Pendulum-v1. Driver time is the processor time of the driver's process, all its
threads and Ray's among them, without learning. `ppo` collects as PPO and A2C do: a rollout of each worker for an
update, one environment each. `impala` learns from 8 rollouts at a time while the workers go on. `sac` stores the steps
of two environments of each worker, as TD3 and DQN do. "Sent" is what a worker receives for a rollout: its job, and
parameters of up to 64 kB with the first call after an update; larger ones are put into Ray's store once, and copied
once to each node.

An answer costs the driver the same with any number of workers (the gate: at most {GATE:g} times as much as with the
fewest). So what limits a run is the product: once driver milliseconds per rollout times rollouts per second is a second
per second, further workers wait. "1 ms steps: workers" is where that is for rollouts of {STEPS} steps of a millisecond
each: {STEPS} ms divided by driver time. Longer rollouts or several environments for each worker help, because an answer
costs nearly the same whatever its length. The rows whose rollouts take {STEPS / 1000:g} s measure the end itself; as
the simulated workers share the processors with the driver, they are lower bounds.

More connections cost more: compare 64 processes with 16 for the same 256 workers. With 256 processes of Ray, each
worker in its own, the 24 GB of this machine were full before all had started; that is left to a larger one.

Rollouts are not gathered on nodes first: each worker answers the driver on its own, so the driver's work grows with
the workers and not with the nodes.

Made by `python benchmarks/scale.py`.
"""


@dataclass(frozen=True)
class Measured:
    """What one number of workers gave."""

    rollouts: int
    updates: int
    seconds: float
    driver_seconds: float
    sent: int
    """Bytes that the workers received: jobs, and parameters that go with calls."""
    waiting: int


ROLLOUT = "rollout"


def command_of(job: Any) -> str:
    """Return what a job asks for."""
    return getattr(job, "command", ROLLOUT)


def mark_of(command: str) -> bytes:
    """Return bytes that a pickled job with this command contains, and no other job."""
    return b"" if command == ROLLOUT else b"\x8c" + bytes([len(command)]) + command.encode()


class SimulatedPool(RayPool):
    """The pool of the runner `ray`, whose workers are simulated."""

    current: SimulatedPool
    seconds = 1.0
    processes = 16

    def __init__(self, task: Any, count: int) -> None:
        self._own_task: Any = pickle.loads(pickle.dumps(task))
        self._own_task.setup(0)
        self._known: set[str] = set()
        self._arrays = Shared(0, {})
        self._hosts: list[Any] = []
        self.waiting = self.sent = 0
        SimulatedPool.current = self
        super().__init__(task, count, RayConfig(name="ray"), 0.0)
        while len(self.pids) < count:
            self._receive(None)

    def _new_actor(self, number: int, at_home: bool) -> Any:
        if not self._hosts:
            self._ray.cloudpickle.register_pickle_by_value(hosts)
            kind = self._ray.remote(hosts.Host).options(num_cpus=0, max_concurrency=4096)
            self._hosts = [kind.remote(self.seconds) for _ in range(min(self.processes, len(self._queues) - 1))]
        return self._hosts[number % len(self._hosts)]

    def _call(self, member: Any, job: Any) -> Any:
        _, arrays = self._shared.for_call(member.version)
        self.sent += len(job.content) + (len(arrays) if isinstance(arrays, bytes) else 0)
        return super()._call(member, job)

    def share(self, arrays: Any) -> int:
        self._arrays = Shared(1, arrays)
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
            value = self._own_task.run(job, self._arrays)
            answer = pack(replace(value, version=hosts.VERSION) if hasattr(value, "version") else value)
            told = mark_of(command), *answer, command in (ROLLOUT, "gather", "gather on")
            self._ray.get([host.learn.remote(*told) for host in self._hosts])

    def collect(self, timeout: float | None = None) -> Any:
        self.waiting = max(self.waiting, len(self._results) + len(self._arrived))
        return super().collect(timeout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, action="append", help="a number of workers; repeatable")
    parser.add_argument("--hosts", type=int, default=16, help="processes that stand for them (default 16)")
    parser.add_argument("--only", action="append", choices=ALGORITHMS, help="this driver alone; repeatable")
    parser.add_argument("--rollout-seconds", type=float, default=1.0, help="what a rollout takes (default 1)")
    parser.add_argument("--step-ms", type=float, help="what a step takes, instead")
    options = parser.parse_args()
    SimulatedPool.processes = options.hosts
    SimulatedPool.seconds = options.rollout_seconds if options.step_ms is None else STEPS * options.step_ms / 1000
    DevRunner.has_collectors = True
    DevRunner.default_workers = property(lambda runner: 10**6)  # type: ignore[assignment, method-assign]
    DevRunner.workers = lambda runner, task, count: SimulatedPool(task, count)  # type: ignore
    for workers in options.workers or (16, 64, 256, 1024):
        for algorithm in options.only or ALGORITHMS:
            measured = measure(algorithm, workers)
            print(algorithm, workers, measured, flush=True)
            settings = {"workers": workers, "hosts": min(workers, options.hosts), "takes": SimulatedPool.seconds}
            name = f"{algorithm} " + " ".join(map(str, settings.values()))
            rows = results.merge(PAGE, name, {"algorithm": algorithm, **settings, **measured.__dict__})
            results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)
    results.show("How many workers a driver can serve", HEADERS, cells_of(rows))
    return 0 if all(passes(rows, row) for row in rows.values()) else 1


def measure(algorithm: str, workers: int) -> Measured:
    """Let the driver go through a few updates, without learning."""
    envs = ENVS[algorithm] * workers
    DevRunner.collecting_env = lambda runner, builder, num: PooledVectorEnv(  # type: ignore
        builder, num, workers, SimulatedPool
    )
    overrides: dict[str, Any] = {"algorithm.n_rollout_steps": STEPS, "evaluation.n_episodes": 1}
    # IMPALA accepts no more than 1,000 actors.
    overrides |= {"algorithm.num_actors": min(envs, 1000)} if algorithm == "impala" else {"algorithm.num_envs": envs}
    if algorithm == "sac":
        overrides |= {"algorithm.initial_buffer_size": STEPS * envs}  # in the units of all answers
    with RunContext(
        "Pendulum-v1", algorithm, overrides=overrides, run_dir=None, seed=1, silent=True, preset="none"
    ) as context:
        run = context.run
        if algorithm == "sac":
            run.algorithm.warm_up()

        def update() -> None:
            if algorithm != "impala":
                run.algorithm._collector.collect()
                return
            for _ in run.algorithm.batches():
                pass

        updates = max(UPDATES, 3 * workers // 8) if algorithm == "impala" else UPDATES
        if SimulatedPool.seconds < 0.5:
            updates *= 4
        for _ in range(max(1, updates // 3)):
            update()
        pool, steps = SimulatedPool.current, run.env_steps
        pool.waiting = pool.sent = 0
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(updates):
            update()
        seconds, driver = time.perf_counter() - began, time.process_time() - cpu
        rollouts = (run.env_steps - steps) // STEPS // ENVS[algorithm]
        return Measured(rollouts, updates, seconds, driver, pool.sent, pool.waiting)


def per_rollout(row: dict[str, Any]) -> float:
    """Driver milliseconds for each rollout."""
    return 1000 * row["driver_seconds"] / row["rollouts"]


def passes(rows: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether an answer costs no more than allowed beside the smallest number of workers."""
    same = [each for each in rows.values() if each["algorithm"] == row["algorithm"] and each["takes"] == row["takes"]]
    return per_rollout(row) <= GATE * per_rollout(min(same, key=lambda each: each["workers"]))


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table."""
    keys = ("takes", "workers", "hosts")
    ordered = sorted(rows.values(), key=lambda row: (ALGORITHMS.index(row["algorithm"]), *(row[key] for key in keys)))
    return [
        [
            row["algorithm"],
            f"{row['workers']:,}",
            f"{row['hosts']:,}",
            f"{row['takes']:g}",
            f"{row['rollouts'] / row['seconds']:,.0f}",
            f"{per_rollout(row):.2f}",
            f"{1000 * row['driver_seconds'] / row['updates']:,.1f}",
            f"{row['sent'] / row['rollouts'] / 1000:,.1f}",
            f"{row['waiting']:,}",
            f"{STEPS / per_rollout(row):,.0f}",
            "met" if passes(rows, row) else "missed",
        ]
        for row in ordered
    ]


if __name__ == "__main__":
    sys.exit(main())
