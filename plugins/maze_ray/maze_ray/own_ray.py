"""What a Ray of our own is started with: workers as the run needs them, no open port, no process that nobody asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from maze_core.base.foreign_settings import variables_set

WORKERS = {"RAY_worker_niceness": "0", "RAY_prestart_worker_first_driver": "0"}
"""Variables for a Ray of our own, unless the user has set them. Its workers have the driver's priority: Ray's own
niceness of 15 keeps a machine responsive, but the driver waits for these workers, and whatever it does between two
answers would interrupt them. And Ray would start a worker for each CPU, whether a run uses them or not."""


@contextmanager
def on_loopback() -> Iterator[None]:
    """Let a Ray started inside the block listen only on the loopback interface, and send no usage reports.

    On Linux Ray replaces 127.0.0.1 with the machine's own address, unless clusters are turned off as on other systems.
    """
    from ray._private import ray_constants

    clusters = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        with variables_set({"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}):
            yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters


@contextmanager
def without_services() -> Iterator[None]:
    """Let a Ray started inside the block have no process that a run does without; each imports Ray for half a second.

    These are its autoscaler, the server of its usage reports, and what sends the driver the output of workers.
    """
    from ray._private import parameter, services

    complete, server = parameter.RayParams, services.start_api_server
    parameter.RayParams = partial(complete, no_monitor=True, include_log_monitor=False)
    services.start_api_server = lambda *_, **__: ("", None)
    try:
        yield
    finally:
        parameter.RayParams, services.start_api_server = complete, server
