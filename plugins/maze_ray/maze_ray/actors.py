"""The pool's actors: where Ray starts them, and how they end."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from maze_ray.station import Station
from maze_ray.worker import Worker


class Actors:
    """Starts actors on the nodes.

    Args:
        ray: the module.
        cpus: CPUs that each worker occupies.
        gpus: GPUs that each worker occupies.
    """

    def __init__(self, ray: Any, cpus: float, gpus: float) -> None:
        self._ray, self._reserved = ray, {"num_cpus": cpus, "num_gpus": gpus}
        self.home: str = ray.get_runtime_context().get_node_id()
        """The driver's node."""

    def worker(self, *, at_home: bool) -> Any:
        """Start a worker; `at_home`: on this node where it has room, for the others may be gone, as Ray learns late."""
        where = self._on(self.home, soft=True, _spill_on_unavailable=True) if at_home else "SPREAD"
        kind = self._ray.remote(Worker)
        return kind.options(**self._reserved, max_restarts=0, scheduling_strategy=where).remote()

    def station(self, node: str, address: str) -> Any:
        """Start a station on a node; it occupies no CPU."""
        kind = self._ray.remote(Station)
        # One thread waits in `take`, another works in `give`.
        options = {"num_cpus": 0, "max_concurrency": 2, "scheduling_strategy": self._on(node, soft=False)}
        return kind.options(**options).remote(address)

    def other_nodes(self) -> list[str]:
        """Return the nodes that are there, without the driver's."""
        return [node["NodeID"] for node in self._ray.nodes() if node["Alive"] and node["NodeID"] != self.home]

    def room(self) -> str:
        """Return how many CPUs and GPUs the cluster has, how many are free, and how many a worker needs."""
        every, free = self._ray.cluster_resources(), self._ray.available_resources()
        kinds = {"CPU": self._reserved["num_cpus"], "GPU": self._reserved["num_gpus"]}
        found = [
            f"{every.get(kind, 0):g} {kind}s, {free.get(kind, 0):g} of them free (a worker needs {needed:g})"
            for kind, needed in kinds.items()
            if needed or kind == "CPU"
        ]
        return f"the cluster has {' and '.join(found)}"

    def kill(self, actor: Any) -> None:
        """End an actor's process, if it is still there."""
        with suppress(Exception):  # Ray may be gone, too
            self._ray.kill(actor)

    def _on(self, node: str, **options: bool) -> Any:
        return self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, **options)
