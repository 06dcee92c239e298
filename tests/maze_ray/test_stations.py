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
from tests.maze_ray.test_socket_channel import Writes
from tests.runners.pool_contract import PoolContract, collect_all
from tests.spoilt import SPOILT_BYTES

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.skipif(not has_channels(), reason="Linux only")


@pytest.fixture
def start(local_ray, monkeypatch):
    """As for other pools; the driver takes this node for another one, where stations pay from one worker on."""
    from maze_ray.actors import Actors
    from maze_ray.pool import RayPool

    from tests.maze_ray.test_pool import starting

    def away(pool, cpus, gpus):
        actors = Actors(pool._ray, cpus, gpus)
        actors.home = "a" * 56
        return actors

    plain = RayPool.__init__
    monkeypatch.setattr(RayPool, "__init__", lambda pool, *arguments: plain(pool, *arguments, lines=True))
    monkeypatch.setattr(RayPool, "_new_actors", away)
    monkeypatch.setattr("maze_ray.lines.FEWEST", 1)
    with starting() as start:
        yield start


@pytest.fixture
def pool(start):
    return start(2)


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
class TestStations(PoolContract):
    """What every pool promises."""

    def test_all_workers_are_behind_a_station(self, pool):
        assert all(isinstance(member.way, StationLine) for member in pool._members.values())


def test_a_round_of_jobs_is_one_message_there_and_few_back(start, messages):
    pool = start(6)
    pool.share({"weight": np.ones(100_000)})  # more than calls of Ray carry
    before = dict(messages)
    assert len(pool.submit_each([("who", 0.4)] * 6)) == 6
    assert sorted(result.value[0] for result in collect_all(pool)) == [0, 1, 2, 3, 4, 5]
    assert messages["give"] - before["give"] == 1
    assert messages["take"] - before["take"] <= 4
    pool.submit_each([("shared", 0.0)] * 6)
    assert {str(result.value) for result in collect_all(pool)} == {str((1, {"weight": ([1.0] * 100_000, False)}))}


@pytest.mark.slow
def test_workers_do_the_jobs_ahead_while_the_driver_is_elsewhere(start):
    pool = start(2)
    for _ in range(4):
        pool.submit(("who", 0.1))
    time.sleep(0.8)
    began = time.monotonic()
    assert len([pool.collect() for _ in range(4)]) == 4
    assert time.monotonic() - began < 0.1


@pytest.mark.slow
def test_parameters_are_those_of_the_last_share(start):
    """Small ones and large ones in turn, so calls of different size follow each other closely."""
    pool = start(2)
    for version in range(1, 9):
        pool.share({"weight": np.full(100_000 if version % 2 else 10, version)})
        pool.submit_each([("constant", None)] * 2)
        assert [result.value for result in collect_all(pool)] == [(version, [[version]])] * 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:worker")
def test_a_station_that_is_killed_costs_its_workers_but_no_job(start):
    pool = start(2)
    jobs = [pool.submit(("who", 0.3), worker=number) for number in (0, 1, 0, 1)]
    (gate,) = pool._lines._stations._gates.values()
    ray.kill(gate.actor)
    assert sorted(result.job for result in collect_all(pool)) == jobs
    assert all(isinstance(member.way, StationLine) for member in pool._members.values())
    assert list(pool._lines._stations._gates.values()) != [gate]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:worker")
def test_a_worker_that_is_killed_with_jobs_at_the_station(start):
    pool = start(2)
    jobs = [pool.submit(("who", 0.2), worker=number) for number in (0, 1, 0, 1)]
    os.kill(pool.pids[0], signal.SIGKILL)
    assert sorted(result.job for result in collect_all(pool)) == jobs
    assert pool.restarts == 1


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
@pytest.mark.parametrize("content", [SPOILT_BYTES["a text"], SPOILT_BYTES["an endless message"]])
def test_a_worker_that_writes_into_its_line(start, content):
    pool = start(1, Writes())
    pool.submit(content)
    with pytest.raises(RunError, match=r"worker 0 .*sent bytes that are no message\. Something in it, such as the env"):
        pool.collect()
