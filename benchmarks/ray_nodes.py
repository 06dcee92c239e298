"""A Ray cluster of two nodes on this machine, of which parts are killed and replaced."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from contextlib import suppress
from typing import Any


class Nodes:
    """A head and another node of two CPUs each. Processes of all its generations have `mark` in their environment."""

    def __init__(self, variable: str, mark: str) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ[variable] = mark
        self._variable = variable
        self._cluster: Any = None
        self._folder = ""
        self._start()

    @property
    def address(self) -> str:
        """That of the head, as `runner.address` takes it."""
        return str(self._cluster.address)

    def lose_node(self, part: str | None = None) -> None:
        """Kill the other node, or one kind of its processes, and start another node."""
        node = next(node for node in self._cluster.list_all_nodes() if node is not self._cluster.head_node)
        if part is not None:
            _kill(node, part)
        else:
            self._cluster.remove_node(node, allow_graceful=False)
        self._cluster.add_node(num_cpus=2)

    def lose_head(self, chance: random.Random) -> None:
        """Kill the head's server, or all of the head's processes."""
        head = self._cluster.head_node
        if chance.random() < 0.5:
            _kill(head, "gcs_server")
        else:
            head.kill_all_processes(check_alive=False, allow_graceful=False)

    def renew(self) -> None:
        """Start another cluster in place of one whose head was lost."""
        self._stop()
        self._start()

    def close(self) -> None:
        """End all."""
        self._stop()
        os.environ.pop(self._variable, None)

    def _start(self) -> None:
        from ray.cluster_utils import Cluster

        self._folder = tempfile.mkdtemp(prefix="nodes-", dir="/tmp")
        head = {"num_cpus": 2, "include_dashboard": False, "temp_dir": self._folder}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._cluster.add_node(num_cpus=2)

    def _stop(self) -> None:
        with suppress(Exception):  # parts of it are gone
            self._cluster.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)


def _kill(node: Any, part: str) -> None:
    for each in node.all_processes[part]:
        each.process.kill()
