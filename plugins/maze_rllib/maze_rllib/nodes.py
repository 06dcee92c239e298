"""Names the nodes of a cluster on which a module is missing that the run needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from maze_core import ConfigError

_MISSING = re.compile(r"No module named '([\w.]+)'")
_PATIENCE = 30.0
"""Seconds for the answers of all nodes."""


def missing_module(error: BaseException) -> ConfigError | None:
    """Return the error of a process of Ray that lacks a module as one that names the nodes; None for other errors."""
    found = _MISSING.search(str(error))
    if found is None or not type(error).__module__.startswith("ray"):
        return None
    name = found[1]
    package = name.partition(".")[0]
    where = " and ".join(_without(package)) or "a node"
    return ConfigError(
        f"{where} cannot import {name}, which the run needs",
        "runner.code",
        f"Next: install on every node what is installed here; or send your own package: --set runner.code=[{package}]",
    )


def _without(package: str) -> list[str]:
    """Return the names of the nodes that do not find a package, as far as they answer in time."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    look = ray.remote(num_cpus=0, max_retries=0)(_looking())
    asked = {}
    with suppress(ray.exceptions.RayError):  # the answer only adds to a message
        for node in (node for node in ray.nodes() if node["Alive"]):
            place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            name = f"the node {node['NodeName']} ({node['NodeManagerHostname']})"
            asked[look.options(scheduling_strategy=place).remote(package)] = name
        ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=_PATIENCE)
        return [asked[answer] for answer in ready if not ray.get(answer)]
    return []


def _looking() -> Callable[[str], Any]:
    """Return a function that a node can run without Maze: Ray sends one that is defined in another by its code."""

    def is_there(package: str) -> bool:
        from importlib.util import find_spec

        return find_spec(package) is not None

    return is_there
