"""This process's connection to Ray: opened by the first user, closed by the last."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from maze_core.environment_variables import Variables, changed_since, put_back, variables_set
from maze_core.errors import ConfigError, PluginError, RunError
from maze_core.interruption import signal_handlers_kept
from maze_core.local_modules import is_current_folder
from maze_ray.probe import answers

if TYPE_CHECKING:
    from maze_ray.config import RayConfig

LOCAL = "local"
_LOST_AFTER = 10.0
"""Seconds without an answer after which a cluster counts as lost. Ray itself would end this process after a minute."""
_NICENESS = "RAY_worker_niceness"
_SHORT = Path("/tmp")  # noqa: S108 — the paths of Ray's sockets must not be longer than about 100 characters
_START = "Next: start one there (ray start --head), see docs/guide/cluster.md; or leave runner.address out."


def import_ray() -> Any:
    """Return the module `ray`. Raises PluginError if it is not installed."""
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
    """A share of the process's connection to Ray. Ray allows one connection per process, so shares are counted.

    If the process is already connected by its own `ray.init`, that connection is used and not closed. An existing
    cluster keeps running; a Ray started here ends with the last share, with all its processes.

    Raises:
        ConfigError: there is no cluster at the address, or it is incompatible with this installation.
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
        """True for a Ray started by Maze on this machine."""
        return self.connection.folder is not None

    def check(self) -> None:
        """Raise RunError if the cluster is gone, which takes seconds; otherwise it takes a millisecond."""
        self.check_store()
        deadline = time.monotonic() + _LOST_AFTER
        while not answers(self.connection.address):
            if time.monotonic() > deadline:
                raise self._lost("its head does not answer")
            time.sleep(0.5)

    def check_store(self) -> None:
        """Raise RunError if this machine's node of the cluster is gone. Takes some microseconds.

        Call it before objects are put or fetched: without its object store, Ray ends the process at once.
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
        """Release the share; safe to call twice."""
        with Session._lock:
            if self._closed:
                return
            self._closed = True
            Session._shares -= 1
            if Session._shares == 0 and Session._current is not None:
                connection, Session._current = Session._current, None
                connection.close()


class _Connection:
    """The process's connection to Ray."""

    def __init__(self, ray: Any, wanted: str, code: Sequence[str]) -> None:
        self.wanted = wanted
        self.folder: Path | None = None
        """Folder of a Ray started by Maze; None for other clusters."""
        self.lost = False
        self._guard: subprocess.Popen[bytes] | None = None
        """Removes the folder if this process is killed."""
        self._ray, self._owned = ray, not ray.is_initialized()
        self._variables: Variables = {}
        """Earlier values of environment variables that Ray has set."""
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
        """Socket of the object store of this machine's node."""

    def close(self) -> None:
        """Close the connection, and end a Ray that was started here."""
        if self._owned:
            with _kept():
                self._ray.shutdown()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
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
            self._guard = _guard_of(self.folder)
            with _loopback(), _not_nice(), _kept():
                self._ray.init(
                    address=LOCAL,
                    job_config=_job_config(),
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
                self._ray.init(
                    address=address,
                    job_config=_job_config(),
                    runtime_env=environment,
                    log_to_driver=False,
                    logging_level="error",
                )
        except Exception as exc:
            self._ray.shutdown()
            reason = " ".join(str(exc).split())
            raise ConfigError(f"cannot join the Ray cluster at {address}: {reason}", "runner.address", _START) from exc


def _job_config() -> Any:
    """Return a configuration of Ray's for workers that find the modules of the current folder as this process does.

    Ray itself would put the current folder before all installed packages of its workers.
    """
    from ray.job_config import JobConfig

    here = [os.path.abspath(entry) for entry in sys.path if is_current_folder(entry)]  # noqa: PTH100

    class Job(JobConfig):  # type: ignore[misc]
        _py_driver_sys_path: list[str]

        def _serialize(self) -> Any:
            folders = [each for each in self._py_driver_sys_path if not is_current_folder(each)]
            self._py_driver_sys_path = folders + here
            return super()._serialize()

    return Job()


def _not_nice() -> AbstractContextManager[None]:
    """Let workers of a Ray started inside the block have the driver's priority, unless the user chose another.

    Ray's own niceness of 15 keeps a machine responsive, but the driver waits for these workers: whatever it does
    between two answers would interrupt them.
    """
    return variables_set({} if _NICENESS in os.environ else {_NICENESS: "0"})


def _guard_of(folder: Path) -> subprocess.Popen[bytes] | None:
    """Return a process that removes a folder some seconds after this one was killed; None where there is no shell.

    Its input ends with this process, however that ends. Ray's processes then end, too, and write no more.
    """
    shell = shutil.which("sh")
    if shell is None:
        return None
    script = f'read -r line; sleep {_LOST_AFTER:g}; rm -rf -- "$0"'
    command = [shell, "-c", script, str(folder)]
    nowhere = subprocess.DEVNULL  # whoever reads the output of this process need not wait for the guard
    return subprocess.Popen(  # noqa: S603 — our own words
        command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, start_new_session=True
    )


def wanted_address(config: RayConfig) -> str:
    """Return the address that a configuration refers to."""
    return config.address or os.environ.get("RAY_ADDRESS") or LOCAL


def _checked(ray: Any, address: str) -> str:
    """Return the address in Ray's form after a server answered there. Raises ConfigError if none does."""
    if address == "auto":
        found = _found()
        if not found or not answers(found):  # the address that Ray remembers may be of a lost cluster
            raise ConfigError("this machine is not part of a running Ray cluster", "runner.address", _START)
        return address
    if "://" in address:
        raise ConfigError(
            f"{address} is an address of the Ray client, which cannot reach the workers of a run",
            "runner.address",
            "Next: start the run on a machine of the cluster (ray job submit) with runner.address=auto.",
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(f"must be host:port, auto or local, got {address!r}", "runner.address")
    if host in ("localhost", "127.0.0.1", "::1"):
        address = f"{ray.util.get_node_ip_address()}:{port}"  # the form that Ray resolves it to
    if not answers(address):
        raise ConfigError(f"no Ray cluster answers at {address}", "runner.address", _START)
    return address


def _found() -> str:
    """Return the address that Ray finds for `auto`; empty if it finds none."""
    from ray._private import services

    try:
        address: str | None = services.canonicalize_bootstrap_address("auto")
    except ConnectionError:
        return ""
    return address or ""


@contextmanager
def _kept() -> Iterator[None]:
    """Preserve this process's random state and signal handlers, which Ray changes when it starts and ends."""
    state = random.getstate()
    try:
        with signal_handlers_kept():
            yield
    finally:
        random.setstate(state)


@contextmanager
def _loopback() -> Iterator[None]:
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
