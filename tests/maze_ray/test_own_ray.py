"""A Ray that Maze has started: what listens where, and who ends it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.usefixtures("local_ray")


def test_a_ray_of_our_own_listens_on_the_loopback_interface_only():
    ray.get(ray.remote(lambda: 1).remote())  # a worker is there
    pids = set(_tree(os.getpid()))
    listening = [line.split() for line in _listening(pids)]
    assert len(listening) >= 4
    assert {address for address, _ in listening} == {"127.0.0.1"}
    assert os.environ.get("RAY_USAGE_STATS_ENABLED") != "1"


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


def _tree(root):
    children = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    pids = [root]
    for pid in pids:
        pids += children.get(pid, [])
    return pids


def _listening(pids):
    """`address port` of the TCP sockets on which these processes listen."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = str(link.readlink())
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                words = [bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8)]
                text = socket.inet_ntop(family, b"".join(words))
                yield f"{text.removeprefix('::ffff:')} {int(port, 16)}"
