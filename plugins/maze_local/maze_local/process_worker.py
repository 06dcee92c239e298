"""The worker process of a pool: sets up its task, then runs the jobs that arrive over a pipe."""

from __future__ import annotations

import pickle
from multiprocessing.connection import Connection
from typing import Any

from maze_core import ConfigError, Shared, Task
from maze_core.plugins.closing import release
from maze_local.processes import begin_worker, errors_told, import_ahead
from maze_local.result_transfer import Packer
from maze_local.shared_parameters import ParameterReader
from maze_local.wakeup import Listener, Wakeup

LONG_FOLLOWS = b"long"
"""What announces a message longer than `LONG`, which must be read while it is written."""
CALL = b"call"
"""What a call of the task begins with; a number follows. No pickle begins like this."""
DONE = b"done"
"""The answer to a call that returned an empty tuple."""


def main(pipe: Connection, bell: Wakeup | None, task: bytes, number: int) -> None:
    """Run jobs until the driver says close or exits, or the task fails. `bell`: rings after messages; None: none."""
    begin_worker(stays=True)
    with errors_told(pipe):
        _Worker(pipe, bell, _unpack(task)).serve(number)


def not_portable(exc: Exception) -> ConfigError:
    """Return the error for a task that cannot be sent to another process."""
    return ConfigError(
        f"the run cannot be sent to worker processes: {exc}",
        where="runner",
        hint="Python objects (an environment function, a model class) must be defined at the top level of an "
        "importable module; or run everything in this process: --runner dev",
    )


class _Worker:
    def __init__(self, pipe: Connection, bell: Wakeup | None, task: Task) -> None:
        self._pipe, self._task = pipe, task
        self._listener = Listener(pipe.fileno(), bell)
        self._packer = Packer()
        self._parameters: ParameterReader | None = None

    def serve(self, number: int) -> None:
        """Set up the task and answer the driver's messages."""
        try:
            self._task.setup(number)
            self._pipe.send(("ready",))
            import_ahead()
            while self._answer(self._heard()):
                pass
        finally:
            release(self._task)
            self._packer.close()
            if self._parameters is not None:
                self._parameters.close()

    def _heard(self) -> bytes:
        """Return the driver's next message."""
        self._listener.wait()
        message = self._pipe.recv_bytes()
        return self._pipe.recv_bytes() if message == LONG_FOLLOWS else message

    def _answer(self, message: bytes) -> bool:
        if message.startswith(CALL):
            task: Any = self._task
            answer = task.call(int.from_bytes(message[len(CALL) :], "little"))
            self._pipe.send_bytes(DONE if answer == () else pickle.dumps(("called", answer), protocol=5))
            return True
        kind, *content = pickle.loads(message)  # noqa: S301 — from the driver
        if kind == "close":
            return False
        if kind == "parameters":
            self._parameters = ParameterReader(*content)
        else:
            job, question, emptied = content
            self._packer.release(emptied)
            shared = Shared(0, {}) if self._parameters is None else self._parameters.read()
            answer = self._task.run(pickle.loads(question), shared)  # noqa: S301 — from the driver
            self._pipe.send(("result", job, self._packer.pack(answer)))
        return True


def _unpack(task: bytes) -> Task:
    try:
        unpacked: Task = pickle.loads(task)  # noqa: S301 — sent by the driver, never read from a file
    except (AttributeError, ImportError) as exc:
        raise not_portable(exc) from exc
    return unpacked
