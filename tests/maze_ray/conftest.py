"""What tests of the Ray runner share: a local Ray for all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

NOTICES_LOSSES = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_failure_threshold": 3,
}
"""Makes a cluster notice the loss of a node in a few seconds instead of twenty; one that is slow may answer as late as
ever."""


@pytest.fixture(scope="package")
def local_ray() -> Iterator[None]:
    """A Ray of our own that outlives the runs of all modules here: pools take shares in it."""
    from maze_ray.config import RayConfig
    from maze_ray.session import Session

    address = os.environ.pop("RAY_ADDRESS", None)
    with closing(Session(RayConfig(name="ray"))):
        yield
    assert not descendants("ray")
    if address is not None:
        os.environ["RAY_ADDRESS"] = address


@pytest.fixture(scope="module")
def clusters() -> Iterator[list[Any]]:
    """The cluster of the tests before, if any, whose files are in a folder of their own."""
    kept: list[Any] = []
    with TemporaryDirectory(prefix="cluster-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        kept.append(folder)
        yield kept
        for cluster in kept[1:]:
            cluster.shutdown()


@pytest.fixture
def cluster(clusters: list[Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head and at least one other node, of one CPU each."""
    import ray
    from maze_ray.own_ray import WORKERS, without_services
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    folder, *running = clusters
    monkeypatch.setenv("MAZE_TEST_CLUSTER", folder)
    monkeypatch.setenv("RAY_TMPDIR", folder)
    for name, value in WORKERS.items():  # beside other tests, workers with Ray's niceness of 15 hardly get on
        monkeypatch.setenv(name, value)
    Path(folder, "ray").mkdir(exist_ok=True)  # the cluster leaves its address there, where nobody else looks for one
    if running and (running[0].head_node.dead_processes() or not running[0].head_node.live_processes()):
        clusters.pop().shutdown()
    if not clusters[1:]:
        head = {"num_cpus": 1, "include_dashboard": False, "temp_dir": folder, "_system_config": NOTICES_LOSSES}
        with without_services():
            clusters.append(Cluster(initialize_head=True, head_node_args=head))
    for node in clusters[1].list_all_nodes():
        if node.dead_processes():  # a test that failed has left it
            clusters[1].remove_node(node, allow_graceful=False)
    while len(clusters[1].list_all_nodes()) < 2:
        clusters[1].add_node(num_cpus=1)
    yield clusters[1]
    assert not ray.is_initialized()


def descendants(word: str, root: int | None = None) -> list[str]:
    """Command lines of the living processes below this one (or `root`) that hold a word.

    Other tests of this process may have left servers running that fork workers. Python runs them by `-c`, and their
    command lines name all packages: they don't count. Ray starts nothing like that.
    """
    parents: dict[int, int] = {}
    commands: dict[int, list[str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            commands[int(folder.name)] = (folder / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if state != "Z":
            parents[int(folder.name)] = int(parent)
    found = {root or os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    own = [" ".join(commands[pid]) for pid in found - {root or os.getpid()} if "-c" not in commands[pid]]
    return [command for command in own if word in command]
