"""What the driver does for 16 to 1,024 workers: the real pool, the real driver and a real Ray, but no environments.

    python benchmarks/scale.py                                   16, 64, 256 and 1,024 workers in 16 processes
    python benchmarks/scale.py --workers 256 --hosts 256         each in a process of its own
    python benchmarks/scale.py --stations                        answers gathered on nodes, of which each process is one
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
from operator import itemgetter
from typing import Any

import hosts
import results
from maze_local.env_task import EnvShare
from maze_local.pooled_envs import PooledVectorEnv
from maze_ray.actors import Actors
from maze_ray.config import RayConfig
from maze_ray.pool import RayPool
from maze_ray.station import Station
from maze_ray.worker import pack

from maze_core.collect.pools.dev import DevRunner
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
    "stations",
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

More connections cost more: compare 64 and 128 processes with 16 for the same 256 workers (256 processes of Ray do not
fit into 23 GB). So where nodes have eight workers or
more, a station on each gathers their answers: the driver sends it one message for all jobs of its node, and gets one
for all answers that are there. An answer waits at most a twentieth of the time its job took, and at most 50 ms. In the
rows with stations each process stands for a node, and the station is another process beside it: the driver's work then
grows with the nodes. With four workers for each node, in the rows of 64, they do not pay yet for IMPALA.

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
_GATHER = (EnvShare.gather.__qualname__, EnvShare.gather_on.__qualname__)


def command_of(job: Any) -> str:
    """Return what a job asks for: the name of the method that it calls."""
    return job.method.__qualname__ if hasattr(job, "method") else ROLLOUT


def mark_of(command: str) -> bytes:
    """Return bytes that a pickled job with this command contains, and no other job."""
    return b"" if command == ROLLOUT else b"\x8c" + bytes([len(command)]) + command.encode()


class SimulatedNodes(Actors):
    """Nodes whose workers are simulated: each is a process of hosts, beside which its station runs, if any."""

    def __init__(self, ray: Any, count: int, seconds: float) -> None:
        super().__init__(ray, 0.0, 0.0)
        self._next, self._ray = 0, ray
        ray.cloudpickle.register_pickle_by_value(hosts)
        kind = ray.remote(hosts.Host).options(num_cpus=0, max_concurrency=4096)
        self.hosts = [kind.remote(seconds) for _ in range(count)]

    def worker(self, *, at_home: bool) -> Any:
        self._next += 1
        return self.hosts[self._next % len(self.hosts)]

    def station(self, node: str, address: str) -> Any:
        return self._ray.remote(Station).options(num_cpus=0, max_concurrency=4).remote(address)

    def other_nodes(self) -> list[str]:
        return []  # a station is started when the first worker of a node is set up


class CountedParameters:
    """Parameters that count the bytes that go with calls."""

    def __init__(self, parameters: Any, pool: SimulatedPool) -> None:
        self.version = parameters.version
        self._parameters, self._pool = parameters, pool

    def for_call(self, known: int) -> Any:
        version, arrays = self._parameters.for_call(known)
        self._pool.sent += len(arrays) if isinstance(arrays, bytes) else 0
        return version, arrays


class SimulatedPool(RayPool):
    """The pool of the runner `ray`, whose workers are simulated."""

    current: SimulatedPool
    seconds = 1.0
    processes = 16
    stations = False

    def __init__(self, task: Any, count: int) -> None:
        self._own_task: Any = pickle.loads(pickle.dumps(task))
        self._own_task.setup(0)
        self._known: set[str] = set()
        self._arrays = Shared(0, {})
        self.waiting = self.sent = 0
        SimulatedPool.current = self
        super().__init__(task, count, RayConfig(name="ray"), 0.0, lines=self.stations)
        while len(self.pids) < count:
            self._receive(None)

    def _new_actors(self, cpus: float, gpus: float) -> SimulatedNodes:
        self._nodes = SimulatedNodes(self._ray, min(self.processes, self.num_workers), self.seconds)
        return self._nodes

    def _take(self, worker: int, largest: int | None = None) -> Any:
        job = super()._take(worker, largest)
        self.sent += 0 if job is None else len(job.content)
        return job

    def share(self, arrays: Any) -> int:
        self._arrays = Shared(1, arrays)
        version = super().share(arrays)
        self._shared: Any = CountedParameters(self._shared, self)
        return version

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
            told = mark_of(command), *answer, command in (ROLLOUT, *_GATHER)
            self._ray.get([host.learn.remote(*told) for host in self._nodes.hosts])

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
    parser.add_argument("--stations", action="store_true", help="gather answers on nodes, a process each")
    options = parser.parse_args()
    SimulatedPool.stations = options.stations
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
            name = f"{algorithm} " + " ".join(map(str, settings.values())) + " gathered" * options.stations
            settings |= {"gathered": True} if options.stations else {}
            rows = results.merge(PAGE, name, {"algorithm": algorithm, **settings, **measured.__dict__})
            results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)
    results.show("How many workers a driver can serve", HEADERS, cells_of(rows))
    return 0 if all(passes(rows, row) for row in rows.values()) else 1


def measure(algorithm: str, workers: int) -> Measured:
    """Let the driver go through a few updates, without learning."""
    envs = ENVS[algorithm] * workers
    DevRunner.vector_env = lambda runner, builder, num: PooledVectorEnv(  # type: ignore
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
    alike = itemgetter("algorithm", "takes")
    same = [each for each in rows.values() if alike(each) == alike(row) and each.get("gathered") == row.get("gathered")]
    return per_rollout(row) <= GATE * per_rollout(min(same, key=lambda each: each["workers"]))


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table."""
    keys = itemgetter("takes", "workers", "hosts")
    ordered = sorted(
        rows.values(), key=lambda row: (ALGORITHMS.index(row["algorithm"]), *keys(row), row.get("gathered", False))
    )
    return [
        [
            row["algorithm"],
            f"{row['workers']:,}",
            f"{row['hosts']:,}",
            "yes" if row.get("gathered") else "",
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
