"""Executes the runs of a sweep on the nodes of a Ray cluster."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maze_sweep.away import bring_metrics, bring_run, check_source, copy_of, execute_away
from maze_sweep.execute import execute
from maze_sweep.pool import JobEnd, Outcome, SweepJob

from maze_core import ConfigError, MazeError
from maze_ray.losses import reason_of
from maze_ray.session import Session, import_ray
from maze_ray.worker import begin_on_node, differences, versions

if TYPE_CHECKING:
    from maze_ray.config import RayConfig


_LOOK = 10.0
"""Seconds between two looks at the copy of a run that is under way, for searchers that prune."""


@dataclass(slots=True)
class _Running:
    name: str
    actor: Any
    place: Any
    """Ray's reference to process id and node; available once the job has found room."""
    away: SweepJob | None = None
    """The job, if it runs without the sweep's disk."""
    due: float = 0.0
    """Time of the next look at the copy of its run."""
    interrupted: bool = False


def ray_pool(config: RayConfig, jobs: int | None) -> RaySweepPool:
    """Return a pool with one actor per run, by default as many in parallel as the runner `ray` has workers.

    Run directories must lie on a disk that all nodes share, unless runs copy themselves to addresses of their own.
    """
    from maze_ray.runner import RayRunner

    return RaySweepPool(jobs or RayRunner(config).default_workers, config)


class RaySweepPool:
    """A `SweepPool` with one Ray actor per job, wherever there is room.

    Args:
        size: jobs in parallel.
        config: the runner's configuration.

    Raises:
        ConfigError: there is no cluster.
    """

    def __init__(self, size: int, config: RayConfig) -> None:
        self.size = size
        self._ray = import_ray()
        self._session = Session(config)
        self._actor = self._ray.remote(_Carrier).options(
            num_cpus=0 if self._session.is_local else config.cpus_per_worker,
            max_restarts=0,
            scheduling_strategy="SPREAD",
        )
        self._running: dict[Any, _Running] = {}
        """Running jobs by Ray's reference to their end."""

    def start(self, job: SweepJob) -> None:
        """Start a job as soon as there is room."""
        away = job if copy_of(job) is not None else None
        if away is not None:
            check_source(job)
        actor = self._actor.remote()
        place = actor.place.remote()
        end = actor.carry_out.remote(job, versions(), away is not None)
        self._running[end] = _Running(job.name, actor, place, away, time.monotonic() + _LOOK)

    def ended(self, timeout: float) -> list[JobEnd]:
        """Return the jobs that ended, or whose processes are gone.

        Raises:
            RunError: the cluster is gone.
        """
        if not self._running:
            return []
        answers = list(self._running)
        ready, _ = self._ray.wait(answers, num_returns=1, timeout=timeout)
        if not ready:
            self._session.check_store()
            self._look()
        else:
            ready, _ = self._ray.wait(answers, num_returns=len(answers), timeout=0)
        return [self._ending(answer) for answer in ready]

    def _look(self) -> None:
        """Bring the metrics of the run whose copy was not looked at for longest."""
        away = [each for each in self._running.values() if each.away is not None]
        each = min(away, key=lambda each: each.due, default=None)
        if each is not None and each.away is not None and each.due < time.monotonic():
            bring_metrics(each.away)
            each.due = time.monotonic() + _LOOK

    def interrupt(self, name: str) -> None:
        """Send SIGTERM to a job's process, once: a second one would not wait for the checkpoint."""
        each = next((each for each in self._running.values() if each.name == name), None)
        if each is None or each.interrupted:
            return
        each.interrupted = True
        placed, _ = self._ray.wait([each.place], timeout=0)
        if not placed:  # nothing to save: it still waits for room
            self._ray.kill(each.actor)
            return
        with suppress(self._ray.exceptions.RayError):
            process, node = self._ray.get(each.place)
            there = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
            self._ray.remote(_terminate).options(num_cpus=0, scheduling_strategy=there).remote(process)

    def close(self) -> None:
        """Kill running jobs; safe to call twice."""
        for each in self._running.values():
            with suppress(Exception):  # it may be gone, and Ray with it
                self._ray.kill(each.actor)
        self._running.clear()
        self._session.close()

    def _ending(self, answer: Any) -> JobEnd:
        each = self._running.pop(answer)
        errors, output = self._ray.exceptions, b""
        end: JobEnd
        try:
            end, output = self._ray.get(answer)
        except errors.RayTaskError as exc:
            end = JobEnd(each.name, "failed", f"it cannot run on its node: {str(exc).strip().splitlines()[-1]}")
        except errors.RayError as exc:
            self._session.wait_for_head()
            end = JobEnd(each.name, "killed", f"its process was lost: {reason_of(exc)}")
            if each.interrupted:
                end = JobEnd(each.name, "interrupted", "interrupted before it returned a result")
        with suppress(Exception):
            self._ray.kill(each.actor)
        return end if each.away is None else _brought(each.away, end, output)


def _brought(job: SweepJob, end: JobEnd, output: bytes) -> JobEnd:
    """Fetch a run that has ended; return its end, which is a failure where that has failed."""
    try:
        bring_run(job, output)
    except (MazeError, OSError) as exc:
        outcome: Outcome = "failed" if end.outcome in ("finished", "stopped") else end.outcome
        return JobEnd(job.name, outcome, f"{end.reason}; its copy cannot be fetched: {str(exc).splitlines()[0]}")
    return end


def _terminate(process: int) -> None:
    """Terminate a process; runs on its node."""
    os.kill(process, signal.SIGTERM)


class _Carrier:
    """The actor: executes one job in its main thread, which receives signals."""

    def place(self) -> tuple[int, str]:
        """Return its process id and its node."""
        return os.getpid(), import_ray().get_runtime_context().get_node_id()

    def carry_out(self, job: SweepJob, theirs: dict[str, str], away: bool) -> tuple[JobEnd, bytes]:
        """Train the job's run to its end; return that, and the end of its output where it is `away` from the sweep."""
        begin_on_node()
        try:
            differences(theirs)
        except ConfigError as exc:
            return JobEnd(job.name, "failed", exc.message), b""
        if not away:
            return execute(job), b""
        try:
            return execute_away(job)
        except (MazeError, OSError) as exc:
            return JobEnd(job.name, "failed", str(exc).splitlines()[0]), b""
