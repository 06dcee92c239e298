"""This process's connection to Ray: its beginning, its end, and how the loss of the cluster is noticed."""

from __future__ import annotations

import atexit
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from maze_core import ConfigError, RunError
from maze_core.base.errors import LostError
from maze_core.base.files import GuardedFolder
from maze_core.base.foreign_settings import Variables, changed_since, put_back, variables_set
from maze_core.base.interruption import exits_interrupted, signal_handlers_kept
from maze_core.base.local_modules import is_current_folder
from maze_ray.log import RayLog, error_output_kept, kept_in
from maze_ray.own_ray import WORKERS, on_loopback, without_services
from maze_ray.probe import answers

LOCAL = "local"
_LOST_AFTER = 8.0
"""Seconds without an answer after which a cluster counts as lost."""
_PROBE = 2.0
"""Seconds for one answer."""
_LEAVING = 1.0
"""Seconds for the disconnection from a cluster that is gone."""
_REMOVAL = 10.0
"""Seconds after the death of this process in which those of its Ray end."""
_OURS = {"RAY_gcs_rpc_server_reconnect_timeout_s": "3600", "RAY_BACKEND_LOG_LEVEL": "fatal"}
"""Variables for this process, unless the user has set them. Ray itself ends a process on the spot if the head has not
answered for a minute: in an update that takes longer, the run would have no time to save itself. And what its libraries
write to the error output would come between the lines of the console."""
NODE_ENDED = "the node on this machine has ended"
_MARK = "MAZE_RAY_FOLDER"
"""The variable by which all processes of a Ray of our own are known, whoever has started them."""
_SHORT = Path("/tmp")  # noqa: S108 — the paths of Ray's sockets must not be longer than about 100 characters
_WHERE = "runner.address"
_START = "Next: start one there (ray start --head), see docs/guide/cluster.md; or leave runner.address out."


class Connection:
    """The process's connection to Ray.

    Args:
        ray: the module.
        wanted: the address that was asked for.
        code: folders to send to the nodes.
        named: the address comes from the configuration.
    """

    def __init__(self, ray: Any, wanted: str, code: Sequence[str], *, named: bool) -> None:
        self.wanted = wanted
        self.folder: GuardedFolder | None = None
        """Folder of a Ray started by Maze; None for other clusters."""
        self.lost = ""
        """Why the cluster is gone; empty while it is there."""
        self.tell: Callable[[Exception], object] = lambda loss: None
        """Is called with the loss, from another thread."""
        self.log = RayLog()
        self._closed = threading.Event()
        self._ray, self._owned = ray, not ray.is_initialized()
        self._variables: Variables = {}
        """Earlier values of environment variables that Ray has set."""
        self._silence = ExitStack()
        if self._owned:
            self._silence.enter_context(kept_in(self.log, ray))
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
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def loss(self) -> LostError:
        """The loss of the cluster as an error."""
        return LostError(f"the Ray cluster at {self.address} is gone: {self.lost}")

    def _watch(self) -> None:
        """Look every second whether the head answers and this machine's node is there, whatever the run does."""
        with suppress(OSError), socket.socket(socket.AF_UNIX) as store:
            store.connect(self.store)
            store.settimeout(1.0)
            self._watch_head(store)
        if not self._closed.is_set():
            self.lost = self.lost or NODE_ENDED
            self.tell(self.loss)

    def _watch_head(self, store: socket.socket) -> None:
        """Return when the cluster is lost, or the node has closed its connection."""
        answered, failures = time.monotonic(), 0
        while not self._closed.is_set() and not self.lost:
            with suppress(TimeoutError):
                if not store.recv(1):
                    return
            if self.folder is not None and _has_ended(self._ray):
                self.lost = "its head has ended"
            elif answers(self.address, _PROBE):
                answered, failures = time.monotonic(), 0
            else:
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
        if self.folder is not None:
            _kill_all(self._ray, self.folder.path)
        thread = threading.Thread(target=self._ray.shutdown, daemon=True)
        thread.start()
        thread.join(_LEAVING)
        atexit.unregister(self._ray.shutdown)  # the end of the process would wait for this thread

    def _begin(self, wanted: str, code: Sequence[str], *, named: bool) -> None:
        before = dict(os.environ)
        try:
            with variables_set(_unless_set(_OURS)):
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
        self.folder = GuardedFolder("ray-", _SHORT if _SHORT.is_dir() else None, _REMOVAL)
        try:
            with (
                variables_set({_MARK: str(self.folder.path), **_unless_set(WORKERS)}),
                on_loopback(),
                without_services(),
                _kept(),
                error_output_kept(self.log),
            ):
                self._ray.init(
                    address=LOCAL,
                    job_config=_job_config(),
                    include_dashboard=False,
                    log_to_driver=False,
                    configure_logging=False,
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
            with _kept(), error_output_kept(self.log):
                self._ray.init(
                    address=address,
                    job_config=_job_config(),
                    runtime_env=environment,
                    log_to_driver=False,
                    configure_logging=False,
                )
        except Exception as exc:
            self._ray.shutdown()
            reason = " ".join(str(exc).split())
            raise ConfigError(f"cannot join the Ray cluster at {address}: {reason}", where, start) from exc


def _has_ended(ray: Any) -> bool:
    """Return True if the head's server, a child of this process, is no more."""
    node = ray._private.worker._global_node
    servers = [] if node is None else node.all_processes.get("gcs_server", [])
    return any(server.process.poll() is not None for server in servers)


def _kill_all(ray: Any, folder: Path) -> None:
    """Kill all processes of a Ray of our own that is lost; left alone, some would wait for it, and write."""
    node, ray._private.worker._global_node = ray._private.worker._global_node, None  # Ray's end makes folders anew
    if node is not None:
        # Those that name themselves may have written over the variable by which they are known.
        children = [child for kind in node.all_processes.values() for each in kind for child in _children(each.process)]
        node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)
        for child in children:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
    mark = f"{_MARK}={folder}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


def _children(process: Any) -> list[int]:
    """Return the processes that a process has started and that are still there."""
    found: list[int] = []
    for task in Path(f"/proc/{process.pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, task.read_text().split())
    return found


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


def _unless_set(variables: dict[str, str]) -> dict[str, str]:
    """Return those that the user has not set."""
    return {name: value for name, value in variables.items() if name not in os.environ}


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
