"""A Ray that Maze has started: what listens where, and who ends it."""

from __future__ import annotations

import os

import pytest

from tests.maze_ray.conftest import descendants
from tests.sockets import listening, tree

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.usefixtures("local_ray")


def test_a_ray_of_our_own_listens_on_the_loopback_interface_only_and_has_no_process_that_nobody_uses():
    ray.get(ray.remote(lambda: 1).remote())  # a worker is there
    pids = set(tree(os.getpid()))
    found = [line.split() for line in listening(pids)]
    assert len(found) >= 4
    assert {address for address, _ in found} == {"127.0.0.1"}
    assert os.environ.get("RAY_USAGE_STATS_ENABLED") != "1"
    unused = ("log_monitor.py", "monitor.py", "dashboard.py")  # processes that a run does without
    assert not [command for command in descendants("ray") if any(each in command for each in unused)]


def test_a_connection_of_the_users_own_is_used_and_left_alone():
    """Ray was started by somebody else in this process, as far as the second session knows."""
    from maze_ray.config import RayConfig
    from maze_ray.session import Session

    before = Session._current, Session._shares
    Session._current, Session._shares = None, 0
    try:
        session = Session(RayConfig(name="ray"))
        session.close()
        assert ray.is_initialized()
    finally:
        Session._current, Session._shares = before
