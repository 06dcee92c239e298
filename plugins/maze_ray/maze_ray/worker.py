"""The worker on a node: a Ray actor that sets up a task and runs jobs. It reports errors instead of raising them."""

from __future__ import annotations

import os
import pickle
import platform
import threading
import time
import traceback
from contextlib import closing, suppress
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
from maze_local.processes import begin_worker, import_ahead
from maze_local.result_transfer import LARGE
from maze_local.wakeup import Listener

from maze_core import ConfigError, MazeError, Shared
from maze_core.base.blame import their_traceback
from maze_core.plugins.closing import release
from maze_ray.parameters import received
from maze_ray.session import import_ray
from maze_ray.socket_channel import NoMessageError, SocketChannel, call

if TYPE_CHECKING:
    from maze_core import Task

Answer = tuple[Any, ...]
"""`("ready", process id, differences, node, whether it has called the driver)`, `("joined", whether it has called the
station)`, `("result", pickle, arrays)`, or `("error", type or None, message, traceback)`."""

MUST_MATCH = ("python", "maze-core")
_SHOULD_MATCH = ("torch", "numpy", "gymnasium")


def versions() -> dict[str, str]:
    """Return the versions that decide whether two installations are compatible."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python} | {name: _version(name) for name in (*MUST_MATCH[1:], *_SHOULD_MATCH)}


class Worker:
    """The actor."""

    def setup(self, number: int, task: bytes, theirs: dict[str, str], home: str, door: str | None = None) -> Answer:
        """Set up worker `number`.

        Args:
            number: of this worker.
            task: a pickle.
            theirs: the versions of the driver process.
            home: the id of the driver's node.
            door: the address of the driver's `Door`; None: this worker is called through Ray.
        """
        begin_on_node()
        self._line: SocketChannel | None = None
        try:
            different = differences(theirs)
            self._task = _unpack(task)
            self._shared = Shared(0, {})
            self._task.setup(number)
            import_ahead()
        except Exception as exc:  # noqa: BLE001 — whatever it is, the driver reports it
            return _error(exc)
        node = import_ray().get_runtime_context().get_node_id()
        if door is not None and node == home:
            self._line = call(door, number)
        return "ready", os.getpid(), different, node, self._line is not None

    def join(self, address: str, ticket: int, patience: float) -> Answer:
        """Call the station of this node, which starts within `patience` seconds."""
        self._line = call(address, ticket, patience)
        return "joined", self._line is not None

    def serve(self) -> None:
        """Answer jobs that come over the line, until it says None. If the other end hangs up, this process ends.

        Then the driver or the station was killed, or the driver gave this worker up; Ray might not tell for long.
        """
        line = self._line
        if line is None:
            raise RuntimeError("this worker has no line")
        with suppress(EOFError, OSError), closing(line):
            listener = Listener(line.fileno(), line.receive_bell())
            while True:
                listener.wait()
                try:
                    message = line.receive()
                except NoMessageError:
                    line.send((None,))  # the driver tells it and ends this process
                    return
                if message is None:
                    return
                number, *arguments = message
                line.send((number, *self.run(*arguments)))
        os._exit(1)

    def run(self, job: bytes, version: int, arrays: Any) -> Answer:
        """Run a job with these parameters (`Sent`) and return its answer."""
        if version != self._shared.version:
            self._shared = received((version, arrays))
        try:
            return "result", *pack(self._task.run(pickle.loads(job), self._shared))  # noqa: S301 — from the driver
        except Exception as exc:  # noqa: BLE001
            return _error(exc)

    def leave(self) -> None:
        """End this process at once: the head is gone, so nobody else would for a minute."""
        os._exit(1)

    def close(self) -> None:
        """Close the task."""
        release(self._task)


def begin_on_node() -> None:
    """Set up a process that Ray has started on a node: as a worker, which ends when its node does.

    Ray leaves that to the process's parent becoming number 1, which it does not in every container.
    """
    begin_worker()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def pack(value: Any) -> tuple[bytes, list[np.ndarray]]:
    """Return a pickle and its large arrays separately, which Ray sends without copies."""
    arrays: list[np.ndarray] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        array = np.frombuffer(buffer.raw(), np.uint8)
        if array.nbytes >= LARGE:
            arrays.append(array)
        return array.nbytes < LARGE

    return pickle.dumps(value, protocol=5, buffer_callback=keep), arrays


def unpack(content: bytes, arrays: list[np.ndarray]) -> Any:
    """Return the packed value; its arrays are writable copies."""
    return pickle.loads(content, buffers=[array.copy() for array in arrays])  # noqa: S301 — from our own worker


def packed_task(task: Task) -> bytes:
    """Pickle objects of the user's script by value, since no node can import it, and the rest by name."""
    try:
        content: bytes = import_ray().cloudpickle.dumps(task)
    except (pickle.PicklingError, AttributeError, TypeError) as exc:
        raise ConfigError(
            f"the run cannot be sent to workers: {exc}",
            "runner",
            "Python objects (an environment function, a model class) must be picklable; or run "
            "everything in this process: --runner dev",
        ) from exc
    return content


def _unpack(task: bytes) -> Task:
    try:
        unpacked: Task = pickle.loads(task)  # noqa: S301
    except (AttributeError, ImportError) as exc:
        raise ConfigError(
            f"the node {platform.node()} cannot load the run: {exc}",
            "runner",
            "Install on every node what is installed here: maze-core, the plugins of the run, and your own packages; "
            "or send your own along: --set runner.code=[my_package]",
        ) from exc
    return unpacked


def differences(theirs: dict[str, str]) -> str:
    """Return a text about packages that differ from the driver's. Raises ConfigError if they are incompatible."""
    ours = versions()
    differing = [name for name, version in theirs.items() if ours[name] != version]
    words = ", ".join(f"{name} {ours[name]} instead of {theirs[name]}" for name in differing)
    if any(name in MUST_MATCH for name in differing):
        raise ConfigError(
            f"the node {platform.node()} has {words}", "runner", "Install the same versions on every node."
        )
    return words and f"{platform.node()} has {words}"


def _error(exc: Exception) -> Answer:
    kind = type(exc) if isinstance(exc, MazeError) else None
    return "error", kind, str(exc), their_traceback(exc) or "".join(traceback.format_exception(exc))


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution).partition("+")[0]  # a learner on a GPU has another build of torch
    except metadata.PackageNotFoundError:
        return "none"
