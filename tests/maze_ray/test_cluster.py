"""Clusters that were there before: two nodes on one machine, one of which is lost, or the whole cluster."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from maze_core.base.errors import LostError, RunError
from tests.maze_ray.light import Light

ray = pytest.importorskip("ray")


def nodes_of(pool):
    """The nodes of the workers that are there, as process ids of their raylets."""
    return {_parent_of(pid) for pid in pool.pids}


def _parent_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:worker")
def test_the_jobs_of_a_lost_node_go_to_the_others_at_once(cluster):
    """There is no room for another worker: who waits for one would wait for `start_timeout`."""
    from maze_ray.config import RayConfig
    from maze_ray.pool import RayPool

    pool = RayPool(Light(), 2, RayConfig(name="ray", address=cluster.address, start_timeout=600.0), 1.0)
    try:
        while len(pool.pids) < 2:
            pool._receive(None)
        assert len(nodes_of(pool)) == 2  # workers on both nodes
        (node,) = [node for node in cluster.list_all_nodes() if node is not cluster.head_node]
        cluster.remove_node(node, allow_graceful=False)
        began = time.monotonic()
        while len(pool.pids) == 2:  # a process outlives its node for a moment, and answers
            jobs = [pool.submit(("who", 0.05), worker=number) for number in [0, 1] * 4]
            done = [pool.collect() for _ in jobs]
            assert sorted(result.job for result in done) == jobs
            assert time.monotonic() - began < 120
        cluster.add_node(num_cpus=1)
        while len(pool.pids) < 2:
            pool._receive(None)
        assert pool.restarts == 1
    finally:
        pool.close()
    assert not cluster.head_node.dead_processes()  # it is not ours to end


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:worker", "ignore:with the worker")
def test_a_station_gathers_the_answers_of_its_node_until_that_is_lost(cluster, monkeypatch):
    """Workers here, and behind stations on two nodes, of which one comes later and one is lost."""
    from maze_ray.config import RayConfig
    from maze_ray.pool import RayPool
    from maze_ray.ways import OwnLine, StationLine

    monkeypatch.setattr("maze_ray.lines.FEWEST", 2)
    (other,) = [node for node in cluster.list_all_nodes() if node is not cluster.head_node]
    pool = RayPool(Light(), 4, RayConfig(name="ray", address=cluster.address), 1.0, lines=True)
    try:
        while len(pool.pids) < 2:
            pool._receive(None)
        late = cluster.add_node(num_cpus=2)
        while len(pool.pids) < 4:
            pool._receive(None)
        kinds = [type(member.way) for member in pool._members.values()]
        assert (kinds.count(OwnLine), kinds.count(StationLine)) == (1, 3)
        for lost in (None, other, late):
            pool.share({"weight": np.ones(50_000)})
            jobs = pool.submit_each([("who", 0.3)] * 4)
            if lost is not None:
                cluster.remove_node(lost, allow_graceful=False)
            assert sorted(pool.collect().job for _ in jobs) == jobs
    finally:
        pool.close()


@pytest.mark.slow
def test_workers_without_room(cluster, monkeypatch):
    """One worker too many for the cluster. Its jobs are done by others, and it joins when there is room."""
    from maze_ray.config import RayConfig
    from maze_ray.pool import RayPool

    config = RayConfig(name="ray", address=cluster.address, start_timeout=600.0)
    cpus = len(cluster.list_all_nodes())
    pool = RayPool(Light(), cpus + 1, config, 1.0)
    try:
        while len(pool.pids) < cpus:
            pool._receive(None)
        (waiting,) = [member for member in pool._members.values() if not member.ready]
        waiting.deadline = time.monotonic()
        jobs = [pool.submit(("who", 0.05), worker=number) for number in [*range(cpus + 1)] * 4]
        told = r"worker \d did not find free CPUs and start within 600 seconds; the run continues"
        with pytest.warns(RuntimeWarning, match=told):
            done = [pool.collect() for _ in jobs]
        assert sorted(result.job for result in done) == jobs
        assert len({result.worker for result in done}) == cpus
        cluster.add_node(num_cpus=1)
        deadline = time.monotonic() + 120
        while len(pool.pids) <= cpus and time.monotonic() < deadline:
            pool._receive(None)
        assert len(pool.pids) == cpus + 1
    finally:
        pool.close()
    monkeypatch.setattr("maze_ray.pool._NOTICE", 1.0)
    room = r"the cluster has \d CPUs, \d of them free \(a worker needs 100\)"
    with (
        pytest.raises(RunError, match=f"did not find free CPUs and start within 2 seconds; {room}\nNext: free some"),
        pytest.warns(RuntimeWarning, match=f"no worker has started for 1 seconds; {room}"),
    ):
        RayPool(Light(), 1, RayConfig(name="ray", address=cluster.address, start_timeout=2.0), 100.0)


@pytest.mark.slow
def test_code_is_sent_to_the_nodes(cluster, tmp_path, monkeypatch):
    """A package that only this process can import, as on a cluster of other machines."""
    from maze_ray.config import RayConfig
    from maze_ray.pool import RayPool

    package = tmp_path / "away" / "wooden"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from tests.maze_ray.light import Light\n\n\nclass Wooden(Light):\n    pass\n")
    spec = importlib.util.spec_from_file_location("wooden", package / "__init__.py")
    wooden = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "wooden", wooden)
    spec.loader.exec_module(wooden)
    config = RayConfig(name="ray", address=cluster.address, code=(str(package),))
    with closing(RayPool(wooden.Wooden(), 1, config, 1.0)) as pool:
        pool.submit(("square", 3))
        assert pool.collect().value == 9


@pytest.mark.slow
def test_workers_given_to_a_node_that_has_just_died(cluster):
    """The cluster notices the loss of a node late. Its worker is started where there is room."""
    from maze_ray.config import RayConfig
    from maze_ray.pool import RayPool

    config = RayConfig(name="ray", address=cluster.address, start_timeout=60.0)
    spare = cluster.add_node(num_cpus=2)
    occupant = RayPool(Light(), 1, config, 2.0)
    gone = cluster.add_node(num_cpus=2)
    cluster.remove_node(gone, allow_graceful=False)
    leaving = threading.Timer(1.0, occupant.close)
    leaving.start()
    pool = RayPool(Light(), 1, config, 2.0)
    try:
        pool.submit(("who", 0.0))
        assert pool.collect().worker == 0
    finally:
        leaving.join()
        pool.close()
        cluster.remove_node(spare, allow_graceful=False)


@pytest.mark.slow
def test_a_lost_head_is_noticed_while_messages_come_and_workers_end(cluster, monkeypatch):
    """Only the head's server is killed: the nodes go on, and Ray would wait for a minute."""
    from maze_ray.config import RayConfig
    from maze_ray.pool import RayPool

    monkeypatch.setattr("maze_ray.connection._LOST_AFTER", 3.0)
    pool = RayPool(Light(), 1, RayConfig(name="ray", address=cluster.address), 1.0, lines=True)
    processes = pool.pids
    for server in cluster.head_node.all_processes["gcs_server"]:
        server.process.kill()
    began = time.monotonic()

    def work():
        while True:
            pool.submit(("who", 0.05), worker=0)
            pool.collect()

    with pytest.raises(LostError, match="its head does not answer"):
        work()
    assert time.monotonic() - began < 30
    pool.close()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in processes) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes)
