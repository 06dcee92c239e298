"""This process's connection to Ray: made by the first who needs it, ended by the last."""

from __future__ import annotations

import os
import random
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from maze_core.errors import ConfigError, PluginError, RunError
from maze_core.training.process_state import signal_handlers_kept
from maze_core.variables import Variables, changed_since, put_back, variables_set
from maze_ray.probe import answers

if TYPE_CHECKING:
    from maze_ray.config import RayConfig

LOCAL = "local"
_LOST_AFTER = 10.0
"""Seconds without an answer after which a cluster is given up. Ray itself would end this process after a minute."""
_SHORT = Path("/tmp")  # noqa: S108 — the paths of Ray's sockets must not be longer than about 100 characters
_START = "Next: start one there (ray start --head), see docs/guide/cluster.md; or leave runner.address out."


def import_ray() -> Any:
    """The module `ray`. Raises PluginError where it is not installed."""
    before = dict(os.environ)
    try:
        import ray
    except ImportError as exc:
        raise PluginError(
            "the runner ray needs Ray, which is not installed here\n"
            'Next: make setup-ray, or: python -m pip install "ray>=2.50"'
        ) from exc
    finally:
        put_back(changed_since(before))
    return ray


class Session:
    """A share in the process's connection to Ray. Ray allows one connection per process, so shares are counted.

    Where the process is connected already, by its own `ray.init`, that connection is used and left alone. A cluster
    that was there before is left as it is; a Ray started here ends with the last share, with all its processes.

    Raises:
        ConfigError: there is no cluster at the address, or it does not go with this installation.
        PluginError: Ray is not installed.
    """

    _shares: ClassVar[int] = 0
    _current: ClassVar[_Connection | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, config: RayConfig) -> None:
        ray = import_ray()
        wanted = wanted_address(config)
        self._closed = False
        with Session._lock:
            if Session._current is None:
                Session._current = _Connection(ray, wanted, config.code)
            elif Session._current.wanted != wanted:
                raise ConfigError(
                    f"this process is connected to another Ray already: {Session._current.wanted}", "runner.address"
                )
            self.connection = Session._current
            Session._shares += 1

    @property
    def is_local(self) -> bool:
        """Whether this is a Ray of our own, on this machine."""
        return self.connection.folder is not None

    def check(self) -> None:
        """Raise RunError if the cluster is gone. Takes seconds then, and a millisecond where it is there."""
        self.check_store()
        deadline = time.monotonic() + _LOST_AFTER
        while not answers(self.connection.address):
            if time.monotonic() > deadline:
                raise self._lost("its head does not answer")
            time.sleep(0.5)

    def check_store(self) -> None:
        """Raise RunError if this machine's node of the cluster is gone. Takes some microseconds.

        To be asked before objects are put or fetched: without its object store, Ray ends the process on the spot.
        """
        try:
            with socket.socket(socket.AF_UNIX) as store:
                store.connect(self.connection.store)
        except OSError as exc:
            raise self._lost("the node on this machine has ended") from exc

    def _lost(self, reason: str) -> RunError:
        self.connection.lost = True
        return RunError(f"the Ray cluster at {self.connection.address} is gone: {reason}")

    def close(self) -> None:
        """Give the share back; safe to call twice."""
        with Session._lock:
            if self._closed:
                return
            self._closed = True
            Session._shares -= 1
            if Session._shares == 0 and Session._current is not None:
                connection, Session._current = Session._current, None
                connection.close()


class _Connection:
    """Ray as it is used by this process."""

    def __init__(self, ray: Any, wanted: str, code: Sequence[str]) -> None:
        self.wanted = wanted
        self.folder: Path | None = None
        """Where a Ray of our own keeps its files."""
        self.lost = False
        self._ray, self._owned = ray, not ray.is_initialized()
        self._variables: Variables = {}
        """Environment variables that Ray set, as they were."""
        if self._owned:
            self._begin(wanted, code)
        elif code:
            raise ConfigError(
                "this process is connected to Ray already", "runner.code", "Give it to your ray.init as py_modules."
            )
        context = ray.get_runtime_context()
        self.address: str = context.gcs_address
        here = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
        self.store: str = here["ObjectStoreSocketName"]
        """Where the object store of this machine's node listens."""

    def close(self) -> None:
        """End what was begun here."""
        if self._owned:
            with _kept():
                self._ray.shutdown()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        put_back(self._variables)

    def _begin(self, wanted: str, code: Sequence[str]) -> None:
        before = dict(os.environ)
        try:
            if wanted == LOCAL:
                self._start()
            else:
                self._connect(wanted, code)
        except BaseException:
            put_back(changed_since(before))
            raise
        self._variables = changed_since(before)

    def _start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ray-", dir=_SHORT if _SHORT.is_dir() else None))
        try:
            with _loopback(), _kept():
                self._ray.init(
                    address=LOCAL,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level="error",
                    _node_ip_address="127.0.0.1",
                    _temp_dir=str(self.folder),
                )
        except BaseException:
            self.close()
            raise

    def _connect(self, wanted: str, code: Sequence[str]) -> None:
        address = _checked(self._ray, wanted)
        environment = {"py_modules": [str(Path(folder).resolve()) for folder in code]} if code else None
        try:
            with _kept():
                self._ray.init(address=address, runtime_env=environment, log_to_driver=False, logging_level="error")
        except Exception as exc:
            self._ray.shutdown()
            reason = " ".join(str(exc).split())
            raise ConfigError(f"cannot join the Ray cluster at {address}: {reason}", "runner.address", _START) from exc


def wanted_address(config: RayConfig) -> str:
    """The address that a configuration means."""
    return config.address or os.environ.get("RAY_ADDRESS") or LOCAL


def _checked(ray: Any, address: str) -> str:
    """The address as Ray takes it, once something answers there. Raises ConfigError where nothing does."""
    if address == "auto":
        found = _found()
        if not found or not answers(found):  # what Ray remembers may be a cluster that is gone
            raise ConfigError("this machine belongs to no running Ray cluster", "runner.address", _START)
        return address
    if "://" in address:
        raise ConfigError(
            f"{address} is an address of Ray's client, through which a run cannot reach its workers",
            "runner.address",
            "Next: start the run on a machine of the cluster (ray job submit) with runner.address=auto.",
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(f"must be host:port, auto or local, got {address!r}", "runner.address")
    if host in ("localhost", "127.0.0.1", "::1"):
        address = f"{ray.util.get_node_ip_address()}:{port}"  # what Ray makes of it
    if not answers(address):
        raise ConfigError(f"no Ray cluster answers at {address}", "runner.address", _START)
    return address


def _found() -> str:
    """The address that Ray means by `auto`; empty where it finds none."""
    from ray._private import services

    try:
        address: str | None = services.canonicalize_bootstrap_address("auto")
    except ConnectionError:
        return ""
    return address or ""


@contextmanager
def _kept() -> Iterator[None]:
    """Keep this process's random state and signal handlers, which Ray changes as it begins and ends."""
    state = random.getstate()
    try:
        with signal_handlers_kept():
            yield
    finally:
        random.setstate(state)


@contextmanager
def _loopback() -> Iterator[None]:
    """Let a Ray that is started inside listen on the loopback interface only, and report its usage to nobody.

    On Linux Ray takes 127.0.0.1 for the machine's own address, unless clusters are turned off as on other systems.
    """
    from ray._private import ray_constants

    clusters = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        with variables_set({"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}):
            yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters
