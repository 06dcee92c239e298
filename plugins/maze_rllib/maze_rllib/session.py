"""The Ray of a run: its runner's cluster, that of the process, or a local one that ends with it."""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_core import ConfigError, RunError
from maze_core.base.files import GuardedFolder
from maze_core.base.foreign_settings import Variables, changed_since, put_back
from maze_core.base.interruption import exits_interrupted, signal_handlers_kept
from maze_rllib.randomness import kept

if TYPE_CHECKING:
    from maze_core import PluginConfig

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # a separate node, which listens only on the loopback interface
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_prestart_worker_first_driver": "0",  # a worker for each CPU, which nobody uses
    "RAY_worker_niceness": "0",  # the driver waits for env runners, and Ray's 15 would let it interrupt them
}

_SHORT = Path("/tmp")  # noqa: S108 — the paths of Ray's sockets must not be longer than about 100 characters
_AGAIN = "Next: the same command again, when the machine has less to do; or --runner dev"


def check_installed() -> None:
    """Import RLlib, which takes seconds. Raise ConfigError if one of its dependencies is not installed."""
    before = _prepare()
    try:
        with kept():
            import ray.rllib.algorithms  # noqa: F401
    except ImportError as error:
        hint = "Next: make setup-ray, or pip install maze-rllib"
        text = f"RLlib runs on Ray, which cannot be imported: {error}"
        raise ConfigError(text, "algorithm.name", hint) from error
    finally:
        put_back(changed_since(before))
    _hush()


class RaySession:
    """A running Ray: that of the runner `ray`, the one to which this process is connected, or a new local one.

    Args:
        num_cpus: most worker processes that a local Ray may run at a time.
        runner: the run's runner.

    Raises:
        RunError: Ray does not start.
    """

    def __init__(self, num_cpus: int, runner: PluginConfig | None = None) -> None:
        check_installed()
        import ray

        self._share: Any = None
        """The runner's connection to a cluster."""
        if runner is not None and runner.name == "ray":
            self._share = runner.plugin_class("runner")(runner).connect()
        self._ours = not ray.is_initialized()
        self._folder: GuardedFolder | None = None
        """Where Ray keeps its sockets and logs, if it was started here."""
        self._variables: Variables = {}
        if self._ours:
            before = _prepare()
            try:
                self._folder = GuardedFolder("ray-", _SHORT if _SHORT.is_dir() else None)
                with kept(), signal_handlers_kept(), exits_interrupted():
                    _start(ray, num_cpus, self._folder.path)
            except BaseException:
                put_back(changed_since(before))
                self.close()
                raise
            self._variables = changed_since(before)
        _hush()

    @property
    def is_cluster(self) -> bool:
        """True if this is a cluster that goes on without the run."""
        return self._share is not None and not self._share.is_local

    def close(self) -> None:
        """Stop Ray if it was started here, or leave the cluster; safe to call twice."""
        share, self._share = self._share, None
        if share is not None:
            share.close()
        if self._ours:
            import ray

            self._ours = False
            with kept(), signal_handlers_kept():
                ray.shutdown()
            if self._folder is not None:
                self._folder.close()
            put_back(self._variables)


def _in_a_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__


def _prepare() -> dict[str, str]:
    """Set variables that Ray reads; return the earlier environment."""
    before = dict(os.environ)
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    return before


def _hush() -> None:
    """Silence RLlib, which logs deprecations of its own code, and every failed call again with a traceback."""
    for name in ("ray", "ray.rllib", "ray.tune"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _start(ray: Any, num_cpus: int, folder: Path) -> None:
    from ray._private import parameter, ray_constants, services

    # Ray reads this from the environment at import, which may have happened already.
    clustered, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    # Neither an autoscaler nor a server of usage reports nor a collector of logs: each imports Ray for half a second.
    complete, server = parameter.RayParams, services.start_api_server
    parameter.RayParams = partial(complete, no_monitor=True, include_log_monitor=False)
    services.start_api_server = lambda *_, **__: ("", None)
    try:
        ray.init(
            address="local",
            num_cpus=num_cpus,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.CRITICAL,
            _temp_dir=str(folder),
        )
    except Exception as error:  # Ray raises even bare exceptions, for example when its processes start slowly
        raise RunError(f"Ray does not start: {_in_a_line(error)}\n{_AGAIN}") from error
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clustered
        parameter.RayParams, services.start_api_server = complete, server
