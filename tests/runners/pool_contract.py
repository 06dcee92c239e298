"""What every pool promises whose workers are other processes, here or elsewhere.

A test module derives classes from `JobContract` and `PoolContract`. For the first it has a fixture `pool` of two
workers, which no test harms; for the second a fixture `start`: `start(count, task, **options)` gives a pool all of
whose workers are there. Where pools differ only in the way of a job to its worker, the first is enough.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from maze_core.base.errors import ConfigError, RunError
from maze_core.collect.pools.serial import SerialPool


class Answers:
    """Answers jobs of the form (what, value)."""

    def __init__(self, fails_in_setup=None):
        self.fails_in_setup = fails_in_setup

    def setup(self, worker):
        self.worker, self.calls = worker, 0
        if self.fails_in_setup is not None:
            raise self.fails_in_setup

    def run(self, job, shared):
        what, value = job
        self.calls += 1
        if what == "square":
            return value**2
        if what == "size":
            return len(value)
        if what == "who":
            time.sleep(value)
            return self.worker, os.getpid(), self.calls
        if what == "array":
            return {"big": np.full(value, self.calls, np.float32), "small": np.arange(3), "pid": os.getpid()}
        if what == "shared":
            time.sleep(value)
            return shared.version, {
                name: (array.tolist(), array.flags.writeable) for name, array in shared.arrays.items()
            }
        if what == "constant":
            return shared.version, [sorted(set(array.ravel().tolist())) for array in shared.arrays.values()]
        if what == "threads":
            import torch

            return torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]
        if what == "fail":
            raise value
        if what == "exit":
            os._exit(value)
        if what == "die once":
            path = Path(value)
            if not path.exists():
                path.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return "survived"
        raise AssertionError(what)

    def close(self):
        pass


def collect_all(pool):
    results = []
    while (result := pool.collect()) is not None:
        results.append(result)
    return results


class JobContract:
    """Jobs, parameters and answers."""

    def test_every_job_is_answered_once(self, pool):
        numbers = [pool.submit(("square", x)) for x in range(50)]
        results = {result.job: result for result in collect_all(pool)}
        assert [results[number].value for number in numbers] == [x**2 for x in range(50)]
        assert sorted(results) == numbers
        assert {result.worker for result in results.values()} == {0, 1}
        assert pool.state() == {}

    def test_a_job_for_one_worker_goes_there(self, pool):
        others = [pool.submit(("square", x)) for x in range(10)]
        bound = [pool.submit(("who", 0.0), worker=1) for _ in range(5)]
        results = {result.job: result for result in collect_all(pool)}
        assert sorted(results) == others + bound
        assert [results[job].value[0] for job in bound] == [1] * 5
        calls = [results[job].value[2] for job in bound]
        assert calls == sorted(calls)  # in the order of submission

    def test_jobs_of_any_length_for_each_worker(self, pool):
        for size in (10, 300_000, 1_000_000, 20_000):
            numbers = pool.submit_each([("size", b"x" * size), ("size", b"x" * (size + 1))])
            results = {result.job: result for result in collect_all(pool)}
            assert [(results[job].worker, results[job].value) for job in numbers] == [(0, size), (1, size + 1)]

    def test_nothing_pending_or_nothing_in_time_is_none(self, pool):
        assert pool.collect() is None
        pool.submit(("who", 1.0))
        began = time.monotonic()
        assert pool.collect(timeout=0.05) is None
        assert time.monotonic() - began < 0.5
        assert pool.collect() is not None

    def test_large_arrays_arrive_whole_and_writable(self, pool):
        jobs = {pool.submit(("array", size)): size for size in [10, 300_000, 1_000_000, 300_000, 5] * 2}
        results = collect_all(pool)  # kept while what carried them is used again
        assert len(results) == len(jobs)
        for result in results:
            big = result.value["big"]
            assert big.shape == (jobs[result.job],)
            assert big.dtype == np.float32
            assert len(np.unique(big)) == 1
            assert result.value["small"].tolist() == [0, 1, 2]
            big += 1
            result.value["small"][0] = 7

    def test_parameters_arrive_by_version_read_only(self, pool):
        pool.submit(("shared", 0.0))
        assert pool.collect().value == (0, {})
        arrays = {"weight": np.ones((2, 2), np.float32), "count": np.array(3)}
        assert pool.share(arrays) == 1
        arrays["count"] += 1
        pool.submit(("shared", 0.0))
        assert pool.collect().value == (1, {"weight": ([[1, 1], [1, 1]], False), "count": (3, False)})
        assert [pool.share(arrays), pool.share(arrays)] == [2, 3]
        pool.submit(("shared", 0.0))
        assert pool.collect().value[0] == 3

    def test_one_thread_in_each_worker(self, pool):
        for worker in (0, 1):
            pool.submit(("threads", None), worker)
        assert [result.value for result in collect_all(pool)] == [(1, "1")] * 2


class PoolContract:
    """Pools that begin, fail, lose workers, or go on from another one."""

    def test_jobs_pending_in_another_pool_are_done(self, start):
        serial = SerialPool(Answers(), 3)
        for x in range(6):
            serial.submit(("square", x))
        serial.collect()
        for task in serial._tasks:
            task.state = dict
        pool = start(1)
        pool.load_state(serial.state())  # most of the jobs were for workers that are not here
        assert pool.submit(("square", 6)) == 6
        assert {result.job: result.value for result in collect_all(pool)} == {x: x**2 for x in range(1, 7)}

    def test_an_exception_arrives_with_its_own_traceback(self, start):
        pool = start(1)
        pool.submit(("fail", ValueError("broken job")))
        with pytest.raises(RunError, match=r"worker . failed: broken job") as caught:
            collect_all(pool)
        assert "raise value\nValueError: broken job" in caught.value.__notes__[0]
        with pytest.raises(RunError, match="closed"):
            pool.collect()

    def test_errors_of_set_up(self, start):
        with pytest.raises(ConfigError, match="no such environment"):
            start(1, Answers(fails_in_setup=ConfigError("no such environment")))
        with pytest.raises(RunError, match="nothing to share") as caught:
            start(1, Answers(fails_in_setup=ZeroDivisionError("nothing to share")))
        assert "ZeroDivisionError: nothing to share" in caught.value.__notes__[0]

    @pytest.mark.filterwarnings("ignore:worker")
    def test_a_killed_worker_is_replaced_and_its_jobs_are_done(self, start):
        pool = start(2)
        pool.share({"weight": np.array(7.0)})
        jobs = [pool.submit(("who", 0.1)) for _ in range(16)]
        victim = pool.pids[0]
        first = pool.collect()
        os.kill(victim, signal.SIGKILL)
        with pytest.warns(RuntimeWarning, match=rf"worker 0 \(process {victim}\) .*1 of at most \d+ restarts"):
            results = collect_all(pool)
        assert sorted([first.job, *(result.job for result in results)]) == jobs
        assert pool.restarts == 1
        assert victim not in pool.pids
        pool.submit(("shared", 0.0), worker=0)
        assert pool.collect().value == (1, {"weight": (7.0, False)})  # the new one has the parameters too

    def test_a_hanging_worker_is_an_error_after_the_timeout(self, start):
        pool = start(1, job_timeout=2.0)
        pool.submit(("who", 60.0))
        began = time.monotonic()
        with pytest.raises(RunError, match=r"worker 0 .* did not answer within 2 seconds"):
            pool.collect()
        assert time.monotonic() - began < 6
