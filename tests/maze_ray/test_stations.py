"""Stations: the pool's promises through them, how many messages they take, and what happens when one is lost."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

pytest.importorskip("maze_ray")

from maze_ray.socket_channel import has_channels
from maze_ray.ways import StationLine

from maze_core.base.errors import RunError
from tests.maze_ray.test_pool import starting
from tests.maze_ray.test_socket_channel import Writes
from tests.runners.pool_contract import JobContract, collect_all
from tests.spoilt import SPOILT_BYTES

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.skipif(not has_channels(), reason="Linux only")


@pytest.fixture(scope="module")
def stations(local_ray):
    """The driver takes this node for another one, where stations pay from one worker on."""
    from maze_ray.actors import Actors
    from maze_ray.pool import RayPool

    def away(pool, cpus, gpus):
        actors = Actors(pool._ray, cpus, gpus)
        actors.home = "a" * 56
        return actors

    plain = RayPool.__init__
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RayPool, "__init__", lambda pool, *arguments: plain(pool, *arguments, lines=True))
        patched.setattr(RayPool, "_new_actors", away)
        patched.setattr("maze_ray.lines.FEWEST", 1)
        yield


@pytest.fixture
def start(stations):
    with starting() as start:
        yield start


@pytest.fixture(scope="module")
def pool(stations):
    """For tests that do no harm to it."""
    with starting() as start:
        yield start(2)


@pytest.fixture
def messages(monkeypatch):
    """The calls of stations so far, by name."""
    from maze_ray.stations import Gate

    counted = {"give": 0, "take": 0}
    give, take = Gate.give, Gate.take

    def counted_give(gate):
        counted["give"] += bool(gate._jobs)
        give(gate)

    def counted_take(gate):
        counted["take"] += 1
        take(gate)

    monkeypatch.setattr(Gate, "give", counted_give)
    monkeypatch.setattr(Gate, "take", counted_take)
    return counted


@pytest.mark.slow
class TestStations(JobContract):
    """What every pool promises of its jobs; beginnings, failures and losses have nothing to do with stations."""

    def test_all_workers_are_behind_a_station(self, pool):
        assert all(isinstance(member.way, StationLine) for member in pool._members.values())

    def test_workers_do_the_jobs_ahead_while_the_driver_is_elsewhere(self, pool):
        for _ in range(4):
            pool.submit(("who", 0.1))
        time.sleep(0.8)
        began = time.monotonic()
        assert len([pool.collect() for _ in range(4)]) == 4
        assert time.monotonic() - began < 0.1

    def test_parameters_are_those_of_the_last_share(self, pool):
        """Small ones and large ones in turn, so calls of different size follow each other closely."""
        for value in range(1, 9):
            version = pool.share({"weight": np.full(100_000 if value % 2 else 10, value)})
            pool.submit_each([("constant", None)] * 2)
            assert [result.value for result in collect_all(pool)] == [(version, [[value]])] * 2


def test_a_round_of_jobs_is_one_message_there_and_few_back(start, messages):
    pool = start(4)
    pool.share({"weight": np.ones(100_000)})  # more than calls of Ray carry
    before = dict(messages)
    assert len(pool.submit_each([("who", 0.4)] * 4)) == 4
    assert sorted(result.value[0] for result in collect_all(pool)) == [0, 1, 2, 3]
    assert messages["give"] - before["give"] == 1
    assert messages["take"] - before["take"] <= 3
    pool.submit_each([("shared", 0.0)] * 4)
    assert {str(result.value) for result in collect_all(pool)} == {str((1, {"weight": ([1.0] * 100_000, False)}))}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:worker")
def test_a_worker_and_then_its_station_are_killed_with_jobs_there(start):
    pool = start(2)
    (gate,) = pool._lines._stations._gates.values()
    for kill in (lambda: os.kill(pool.pids[0], signal.SIGKILL), lambda: ray.kill(gate.actor)):
        jobs = [pool.submit(("who", 0.3), worker=number) for number in (0, 1, 0, 1)]
        kill()
        assert sorted(result.job for result in collect_all(pool)) == jobs
        assert pool.restarts >= 1
    assert all(isinstance(member.way, StationLine) for member in pool._members.values())
    assert list(pool._lines._stations._gates.values()) != [gate]
    pool.submit(("fail", ValueError("broken job")))
    with pytest.raises(RunError, match=r"worker . failed: broken job"):
        pool.collect()


class SilentStation:
    """Stands for the actor of a station that does not start."""

    def __init__(self):
        self.take = self.give = self

    def options(self, **_):
        return self

    def remote(self):
        return ray.remote(num_cpus=0)(lambda: time.sleep(20)).remote()


@pytest.mark.slow
def test_workers_do_without_a_station_that_does_not_start(start, monkeypatch):
    monkeypatch.setattr("maze_ray.stations.new_address", lambda: "\0maze-nobody")
    monkeypatch.setattr("maze_ray.actors.Actors.station", lambda actors, node, address: SilentStation())
    monkeypatch.setattr("maze_ray.stations.STARTS_WITHIN", 0.5)
    pool = start(1)
    pool.submit(("square", 3))
    assert pool.collect().value == 9


@pytest.mark.slow
def test_a_worker_that_writes_into_its_line(start):
    pool = start(1, Writes())
    pool.submit(SPOILT_BYTES["a text"])
    with pytest.raises(RunError, match=r"worker 0 .*sent bytes that are no message\. Something in it, such as the env"):
        pool.collect()
