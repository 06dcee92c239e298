"""In which order queued jobs reach workers, and where the jobs of a worker go that is lost or absent."""

from __future__ import annotations

import pickle

import pytest
from maze_local.queued_pool import QueuedPool

from maze_core.base.errors import ConfigError, RunError


class Idle(QueuedPool):
    """Its workers take jobs when a test says so, and never answer."""

    ended = False

    def _hand_out(self):
        pass

    def _receive(self, deadline):
        return False

    def _at_work(self):
        return False

    def _end_at_once(self):
        self.ended = True


@pytest.fixture
def pool():
    pool = Idle(None, 2)
    for job, worker in [("a", None), ("b", 1), ("c", None), ("d", 1)]:
        pool.submit(job, worker)
    return pool


def taken(pool, worker):
    jobs = []
    while (job := pool._take(worker)) is not None:
        jobs.append(job)
    return jobs


def names(jobs):
    return "".join(pickle.loads(job.content) for job in jobs)


def test_a_worker_does_its_own_jobs_first_and_then_anybodys(pool):
    assert names([pool._take(0)]) == "a"
    assert names(taken(pool, 1)) == "bdc"
    assert taken(pool, 0) == []


def test_jobs_of_a_lost_worker_come_first_in_their_order(pool):
    lost = [pool._take(1), pool._take(1)]
    pool.submit("e", 1)
    pool._give_back(lost)
    assert names(taken(pool, 1)) == "bdeac"


def test_others_have_the_jobs_of_an_absent_worker_until_it_is_back(pool):
    lost = [pool._take(1)]
    pool._pass_on(1)
    pool._give_back(lost)
    pool.submit("e", 1)
    assert names(taken(pool, 0)) == "bdace"
    pool._absent.discard(1)
    pool.submit("f", 1)
    assert taken(pool, 0) == []
    assert names(taken(pool, 1)) == "f"


def test_a_large_job_waits(pool):
    size = len(pickle.dumps("b", protocol=5))
    assert pool._take(1, largest=size - 1) is None
    assert names([pool._take(1, largest=size)]) == "b"


def test_a_failed_task_ends_the_pool_with_what_the_user_can_use(pool):
    mistake = pool._task_failure(0, ConfigError, "no such thing", "Traceback")
    assert isinstance(mistake, ConfigError)
    assert pool.ended
    failure = pool._task_failure(0, None, "broken", "Traceback\n")
    assert (type(failure), str(failure)) == (RunError, "worker 0 failed: broken")
    assert failure.__notes__ == ["In the worker process:\nTraceback"]
    named = pool._task_failure(0, RunError, "environment 0 raised OSError", "Traceback\n")
    assert (type(named), str(named)) == (RunError, "environment 0 raised OSError")
