"""This process's connection to Ray: opened by the first user, closed by the last."""

from __future__ import annotations

import os
import random
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from maze_core.base.environment_variables import Variables, changed_since, put_back, variables_set
from maze_core.base.errors import ConfigError, LostError, PluginError, RunError
from maze_core.base.guarded_folder import GuardedFolder
from maze_core.base.interruption import exits_interrupted, signal_handlers_kept
from maze_core.base.local_modules import is_current_folder
from maze_ray.probe import answers

if TYPE_CHECKING:
    from maze_ray.config import RayConfig

LOCAL = "local"
_LOST_AFTER = 10.0
"""Seconds without an answer after which a cluster counts as lost. Ray itself would end this process after a minute."""
_LEAVING = 5.0
"""Seconds for the disconnection from a cluster that is gone."""
_NICENESS = "RAY_worker_niceness"
_SHORT = Path("/tmp")  # noqa: S108 — the paths of Ray's sockets must not be longer than about 100 characters
_WHERE = "runner.address"
_START = "Next: start one there (ray start --head), see docs/guide/cluster.md; or leave runner.address out."


def import_ray() -> Any:
    """Return the module `ray`. Raises PluginError if it is not installed."""
    before = dict(os.environ)
    try:
        import ray
    except ImportError as exc:
        raise PluginError(
            "the runner ray needs Ray, which is not installed here\n"
            'Next: make setup-ray, or: python -m pip install "ray>=2.60,<3"'
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
                Session._current = _Connection(ray, wanted, config.code, named=config.address is not None)
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
        """Raise RunError if the head has not answered for long. Takes no time: a thread asks it."""
        if self.connection.lost:
            raise LostError(f"the Ray cluster at {self.connection.address} is gone: {self.connection.lost}")

    def check_store(self) -> None:
        """Raise RunError if the head, or this machine's node of the cluster, is gone. Takes some microseconds.

        Call it before objects are put or fetched: without its object store, Ray ends the process at once.
        """
        self.check()
        try:
            with socket.socket(socket.AF_UNIX) as store:
                store.connect(self.connection.store)
        except OSError:
            self.connection.lost = self.connection.lost or "the node on this machine has ended"
            self.check()

    def wait_for_head(self) -> None:
        """Return when the head answers; raise RunError if this machine's node or the head is gone, after seconds."""
        self.check_store()
        while not answers(self.connection.address):
            self.check_store()
            time.sleep(0.5)

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

    def __init__(self, ray: Any, wanted: str, code: Sequence[str], *, named: bool) -> None:
        self.wanted = wanted
        self.folder: GuardedFolder | None = None
        """Folder of a Ray started by Maze; None for other clusters."""
        self.lost = ""
        """Why the cluster is gone; empty while it is there."""
        self._closed = threading.Event()
        self._ray, self._owned = ray, not ray.is_initialized()
        self._variables: Variables = {}
        """Earlier values of environment variables that Ray has set."""
        self._silence = ExitStack()
        if self._owned:
            self._silence.enter_context(_silent(ray))
            self._begin(wanted, code, named=named)
        elif code:
            raise ConfigError(
                "this process is connected to Ray already", "runner.code", "Give it to your ray.init as py_modules."
            )
        context = ray.get_runtime_context()
        self.address: str = context.gcs_address
        here = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
        self.store: str = here["ObjectStoreSocketName"]
        """Socket of the object store of this machine's node."""
        threading.Thread(target=self._watch_head, daemon=True).start()

    def _watch_head(self) -> None:
        """Ask the head every second, whatever the run does: Ray would end this process after a minute."""
        answered, failures = time.monotonic(), 0
        while not self._closed.wait(1.0) and not self.lost:
            if answers(self.address):
                answered, failures = time.monotonic(), 0
                continue
            failures += 1
            if failures > 1 and time.monotonic() - answered > _LOST_AFTER:
                self.lost = "its head does not answer"

    def close(self) -> None:
        """Close the connection, and end a Ray that was started here."""
        self._closed.set()
        if self._owned:
            with _kept():
                self._shut_down()
        if self.folder is not None:
            self.folder.close()
        self._silence.close()
        put_back(self._variables)

    def _shut_down(self) -> None:
        """Disconnect; from a cluster that is gone, only as far as it does not wait for it."""
        if not self.lost:
            self._ray.shutdown()
            return
        thread = threading.Thread(target=self._ray.shutdown, daemon=True)
        thread.start()
        thread.join(_LEAVING)

    def _begin(self, wanted: str, code: Sequence[str], *, named: bool) -> None:
        before = dict(os.environ)
        try:
            if wanted == LOCAL:
                self._start()
            else:
                self._connect(wanted, code, named=named)
        except BaseException:
            self._silence.close()
            put_back(changed_since(before))
            raise
        self._variables = changed_since(before)

    def _start(self) -> None:
        self.folder = GuardedFolder("ray-", _SHORT if _SHORT.is_dir() else None, _LOST_AFTER)
        try:
            with _loopback(), _not_nice(), _kept():
                self._ray.init(
                    address=LOCAL,
                    job_config=_job_config(),
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level="error",
                    _node_ip_address="127.0.0.1",
                    _temp_dir=str(self.folder.path),
                )
        except Exception as exc:  # Ray raises even bare exceptions, for example when its processes start slowly
            self.close()
            reason = " ".join(str(exc).split())[:500] or type(exc).__name__
            again = "Next: the same command again, when the machine has less to do; or --runner local"
            raise RunError(f"Ray does not start: {reason}\n{again}") from exc
        except BaseException:
            self.close()
            raise

    def _connect(self, wanted: str, code: Sequence[str], *, named: bool) -> None:
        where, start = _WHERE, _START
        if not named and os.environ.get("RAY_ADDRESS"):
            where = "the environment variable RAY_ADDRESS"
            start = "Next: unset RAY_ADDRESS, or --set runner.address=local, to start Ray for this run alone."
        address = _checked(self._ray, wanted, where, start)
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
            raise ConfigError(f"cannot join the Ray cluster at {address}: {reason}", where, start) from exc


def _job_config() -> Any:
    """Return a configuration of Ray's for workers that find the modules of the current folder as this process does.

    Ray itself would put the current folder before all installed packages of its workers.
    """
    from ray.job_config import JobConfig

    here = [os.path.abspath(entry) for entry in sys.path if is_current_folder(entry)]  # noqa: PTH100

    class Job(JobConfig):  # type: ignore[misc]
        _py_driver_sys_path: list[str]  # set by Ray

        def _serialize(self) -> Any:
            folders = [each for each in self._py_driver_sys_path if not is_current_folder(each)]
            self._py_driver_sys_path = folders + here
            return super()._serialize()

    return Job()


@contextmanager
def _silent(ray: Any) -> Iterator[None]:
    """Let Ray print no messages of the cluster, such as pages of a lost node's log, between the lines of the console.

    The pool tells of what concerns the run.
    """
    worker = ray._private.worker
    before = worker.print_to_stdstream
    worker.print_to_stdstream = lambda data, ignore_prefix=False: None
    try:
        yield
    finally:
        worker.print_to_stdstream = before


def _not_nice() -> AbstractContextManager[None]:
    """Let workers of a Ray started inside the block have the driver's priority, unless the user chose another.

    Ray's own niceness of 15 keeps a machine responsive, but the driver waits for these workers: whatever it does
    between two answers would interrupt them.
    """
    return variables_set({} if _NICENESS in os.environ else {_NICENESS: "0"})


def wanted_address(config: RayConfig) -> str:
    """Return the address that a configuration refers to."""
    return config.address or os.environ.get("RAY_ADDRESS") or LOCAL


def _checked(ray: Any, address: str, where: str, start: str) -> str:
    """Return the address in Ray's form after a server answered there.

    Raises:
        ConfigError: none does; `where` is what named it, and `start` says what to do next.
    """
    if address == "auto":
        found = _found()
        if not found or not answers(found):  # the address that Ray remembers may be of a lost cluster
            raise ConfigError("this machine is not part of a running Ray cluster", where, start)
        return address
    if "://" in address:
        raise ConfigError(
            f"{address} is an address of the Ray client, which cannot reach the workers of a run",
            where,
            "Next: start the run on a machine of the cluster (ray job submit) with runner.address=auto.",
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(f"must be host:port, auto or local, got {address!r}", where)
    if host in ("localhost", "127.0.0.1", "::1"):
        address = f"{ray.util.get_node_ip_address()}:{port}"  # the form that Ray resolves it to
    if not answers(address):
        raise ConfigError(f"no Ray cluster answers at {address}", where, start)
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
        with signal_handlers_kept(), exits_interrupted():
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
