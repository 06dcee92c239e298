"""The pool of the runner `dev`."""

from __future__ import annotations

import numpy as np
import pytest

from maze_core.base.errors import ConfigError, RunError
from maze_core.collect.pools.dev import DevConfig, DevRunner
from maze_core.collect.pools.serial import SerialPool


class Scale:
    """Answers job x with (worker, calls so far, version, x times the shared factor)."""

    def __init__(self, log):
        self.log = log

    def setup(self, worker):
        self.worker, self.calls = worker, 0

    def run(self, job, shared):
        if job == "fail":
            raise ValueError("broken job")
        if job == "change":
            shared.arrays["factor"][...] = 5
        self.calls += 1
        self.factor = shared.arrays.get("factor", np.ones(()))
        return self.worker, self.calls, shared.version, float(job * self.factor)

    def state(self):
        return {"calls": self.calls}

    def load_state(self, state):
        self.calls = state["calls"]

    def close(self):
        self.log.append(self.worker)


def test_jobs_are_answered_in_order_in_turn_with_the_newest_parameters():
    pool = SerialPool(Scale([]), 2)
    numbers = [pool.submit(x) for x in (1, 2, 3)]
    assert numbers == [0, 1, 2]
    assert pool.collect().value == (0, 1, 0, 1.0)
    factor = np.array(10.0)
    assert pool.share({"factor": factor}) == 1
    factor[...] = 99.0  # the pool keeps a copy
    assert pool.collect().value == (1, 1, 1, 20.0)
    pool.submit(4, worker=1)
    assert pool.collect().value == (0, 2, 1, 30.0)
    last = pool.collect()
    assert (last.job, last.worker, last.value) == (3, 1, (1, 2, 1, 40.0))
    assert pool.collect() is None
    assert pool.collect(timeout=5.0) is None


def test_shared_parameters_cannot_be_changed_by_a_task():
    pool = SerialPool(Scale([]), 1)
    pool.share({"factor": np.ones(())})
    pool.submit("change")
    with pytest.raises(RunError, match="read-only"):
        pool.collect()


def test_a_state_gives_the_same_answers():
    pool = SerialPool(Scale([]), 2)
    pool.share({"factor": np.array(3.0)})
    for x in range(5):
        pool.submit(x)
    pool.collect()
    state = pool.state()
    rest = [pool.collect() for _ in range(4)]
    again = SerialPool(Scale([]), 2)
    again.load_state(state)
    assert [again.collect() for _ in range(4)] == rest
    assert again.submit(0) == pool.submit(0)
    with pytest.raises(ConfigError, match="2 workers, this one 1"):
        SerialPool(Scale([]), 1).load_state(state)


def test_an_exception_is_a_run_error_with_its_cause():
    pool = SerialPool(Scale([]), 1)
    pool.submit("fail")
    with pytest.raises(RunError, match="worker 0 failed: ValueError: broken job") as caught:
        pool.collect()
    assert isinstance(caught.value.__cause__, ValueError)


def test_tasks_are_closed_once_also_when_set_up_fails():
    closed: list[int] = []
    pool = DevRunner(DevConfig(name="dev")).workers(Scale(closed), 3)
    pool.close()
    pool.close()
    assert closed == [0, 1, 2]

    class Fragile(Scale):
        def setup(self, worker):
            super().setup(worker)
            if worker == 1:
                raise OSError("no")

    closed.clear()
    with pytest.raises(OSError, match="no"):
        SerialPool(Fragile(closed), 3)
    assert closed == [0, 1]
