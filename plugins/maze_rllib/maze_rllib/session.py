"""A local Ray: started where there is none, stopped by who started it."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maze_core.errors import ConfigError, RunError

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # a node of its own, which listens on the loopback interface alone
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def check_installed() -> None:
    """Import RLlib, which takes seconds. Raise ConfigError where something that it needs is not installed."""
    _prepare()
    try:
        import ray.rllib.algorithms  # noqa: F401
    except ImportError as error:
        hint = "Next: make setup-ray, or pip install maze-rllib"
        raise ConfigError(f"RLlib runs on Ray, which cannot be imported: {error}", "algorithm.name", hint) from error
    _hush()


class RaySession:
    """A running Ray: the one that this process already is connected to, or a local one of its own.

    Args:
        num_cpus: worker processes that Ray may run at a time.

    Raises:
        RunError: Ray does not start.
    """

    def __init__(self, num_cpus: int) -> None:
        _prepare()
        import ray

        self._ours = not ray.is_initialized()
        if self._ours:
            with _signal_handlers_kept():
                _start(ray, num_cpus)
        _hush()

    def close(self) -> None:
        """Stop Ray if it was started here; safe to call twice."""
        if self._ours:
            import ray

            self._ours = False
            with _signal_handlers_kept():
                ray.shutdown()


def _prepare() -> None:
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def _hush() -> None:
    """RLlib logs deprecations of its own code, and every failed call a second time, with a traceback."""
    for name in ("ray", "ray.rllib", "ray.tune"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _start(ray: Any, num_cpus: int) -> None:
    from ray._private import ray_constants

    # Read from the environment when Ray is imported, which the user's program may have done already.
    clustered, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        ray.init(
            address="local",
            num_cpus=num_cpus,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.CRITICAL,
        )
    except (OSError, RuntimeError, ValueError, TimeoutError) as error:
        raise RunError(f"Ray does not start: {error}") from error
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clustered


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Ray puts a handler of its own in the place of the run's, which writes the last checkpoint."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
