"""Worker processes: how they start, how they are ended, and how their end is described."""

from __future__ import annotations

import errno
import gc
import importlib
import multiprocessing
import os
import shutil
import signal
import socket
import struct
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker, util
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from maze_core import ConfigError, MazeError
from maze_core.base.blame import their_traceback
from maze_core.base.bundled import LIBRARIES
from maze_core.base.foreign_settings import variables_set
from maze_core.base.local_modules import understand_local_modules
from maze_core.base.terminal_text import warn_plainly
from maze_core.base.tolerant_output import tolerate_lost_output

StartMethod = Literal["forkserver", "spawn"]
"""How worker processes are started. `fork` is not offered: it deadlocks once threads or CUDA are in use."""

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_PRELOADED = (
    "__main__",
    "torch",
    "maze_core.collect.agents.worker_agent",
    "maze_core.data.rollout",
    "maze_core.envs.builder",
    "maze_core.envs.sources.factory",
    "maze_core.models.mlp",
    "maze_core.plugins.manager",
    "maze_local.process_worker",
    "maze_local.env_task",
)
"""What worker processes import, once for all of them: a network and what steps environments take 0.15 s in each.

So are the libraries' modules that this process has imported.
"""
_SAFE, _OURS = "PYTHONSAFEPATH", "maze"
_LONGEST_FOLDER = 103 - len("/listener-12345678")
"""Bytes that the path of a fork server's folder may have: a socket's path ends at 103 on macOS and at 107 on Linux."""
LARGEST_MESSAGE = 2**29
"""Bytes of a message, at most. Large arrays are in shared memory, and any text as the length would be more."""
_SILENCE = 20
"""Seconds in which the next part of a message must come."""
LONGEST_WAIT = 86_400.0
"""Seconds that one call may wait: the system counts milliseconds in 32 bits, and a user's time limit may be longer."""
_GARBLED = (errno.EAGAIN, "bad message length")
"""What errors of a pipe say where the bytes in it are no message."""
SPOILT = (
    "sent bytes that are no message. Something in it, such as the environment, writes into file descriptors of its "
    "process that it did not open."
)
"""The end of a sentence about a process for which `is_spoilt`."""
_TERMINATION = 2.0
"""Seconds between asking a process to end, terminating it, and killing it."""


def worker_context(start_method: StartMethod) -> Any:
    """Return the multiprocessing context that starts worker processes.

    Its fork server imports what workers need once, and does nothing else before they are forked from it. On two cores 8
    workers start in 3 instead of 18 seconds and take 6 MiB each instead of 146. The process has one fork server; if it
    is already running, it stays as it is.

    Raises:
        ConfigError: workers could not import the script, or the path of the folder for temporary files is too long for
            a fork server's socket.
    """
    _check_main()
    context = multiprocessing.get_context(start_method)
    folder = util.get_temp_dir()  # where a fork server listens; all workers have to know it, see `_end_with`
    if start_method == "forkserver":
        if len(os.fsencode(folder)) > _LONGEST_FOLDER:
            raise ConfigError(
                f"worker processes cannot start: the path {str(Path(folder).parent)!r} for temporary files is too long",
                "TMPDIR",
                "Set this environment variable to a shorter path, for example /tmp.",
            )
        shared = (name for name in sys.modules if name.partition(".")[0] in LIBRARIES)
        context.set_forkserver_preload([*_PRELOADED, *sorted(shared)])
    return context


def _check_main() -> None:
    """Raise ConfigError for a script that worker processes cannot import, as each of them does."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if main is None or file is None or main.__spec__ is not None or Path(file).exists():
        return
    stdin = Path(file).name == "<stdin>"
    script = "read from standard input" if stdin else f"{file!r}, which is not there"
    raise ConfigError(
        f"worker processes cannot start: each of them imports this script, and it is {script}",
        "runner.name",
        "Save it in a file, with what starts the run below `if __name__ == '__main__':`; or use the runner dev.",
    )


@contextmanager
def worker_variables() -> Iterator[None]:
    """Start processes inside the block with one thread for every numeric library, and without the current folder at the
    head of their path, where a `torch.py` would hide torch.

    They, and the fork server, do not notice SIGTERM before `begin_worker`: it may be sent to all processes of a run,
    and the driver needs them to end well.
    """
    ours = {**dict.fromkeys(THREAD_VARIABLES, "1"), **({} if _SAFE in os.environ else {_SAFE: _OURS})}
    with variables_set(ours):
        resource_tracker.ensure_running()  # its start would let SIGTERM through again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def import_ahead() -> None:
    """Import what the jobs of a worker use, as a fork server does, while the driver has other things to do."""
    for name in _PRELOADED:
        if name != "__main__":
            importlib.import_module(name)


def begin_worker(*, stays: bool = False) -> None:
    """Set up a worker process: ignore Ctrl-C, which the driver handles; use one thread; end with the driver.

    What it prints may be lost, on a full disk or in a closed pipe; warnings are printed as by the command line.

    `stays`: also ignore SIGTERM, for workers without which the driver cannot end well; `kill_at_exit` ends them.
    """
    gc.freeze()  # looking through what the fork server has imported for garbage would copy it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if stays:
        signal.signal(signal.SIGTERM, _stay)  # programs that an environment starts do not inherit this
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    if os.environ.get(_SAFE) == _OURS:
        del os.environ[_SAFE]  # programs that an environment starts are not affected
    tolerate_lost_output()
    warn_plainly()
    understand_local_modules()
    _limit_threads()
    driver = multiprocessing.parent_process()
    if driver is not None:
        # Workers of a worker share the folder of the main process.
        folder = util.get_temp_dir() if driver.name == "MainProcess" else None
        threading.Thread(target=_end_with, args=(driver.sentinel, folder), daemon=True).start()


@contextmanager
def errors_told(pipe: Connection) -> Iterator[None]:
    """Send the driver an exception raised inside: its type if it is one of Maze's, its message and its traceback."""
    gone = (EOFError, BrokenPipeError, ConnectionResetError)
    try:
        yield
    except gone:
        time.sleep(1)  # the driver is: its guard ends this process, and removes the folder first
    except (Exception, SystemExit) as exc:  # noqa: BLE001 — whatever it is, the driver reports it
        text = their_traceback(exc) or "".join(traceback.format_exception(exc))
        with suppress(*gone):
            pipe.send(("error", type(exc) if isinstance(exc, MazeError) else None, str(exc), text))


def _stay(number: int, frame: FrameType | None) -> None:
    """Do nothing."""


def _limit_threads() -> None:
    """Use one thread in this process: workers that each use all cores slow each other down."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    torch = sys.modules.get("torch")
    if torch is not None:  # imported with the user's main module, before the variables were set
        torch.set_num_threads(1)


def _end_with(sentinel: int, folder: str | None) -> None:
    """End this process when the driver's process has ended for any reason; one that was killed leaves a folder."""
    wait([sentinel])
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def kill_at_exit(process: Any) -> None:
    """Kill a process that `stays` when this one exits; multiprocessing would send it SIGTERM and wait."""
    util.Finalize(process, _kill, (weakref.ref(process),), exitpriority=0)


def _kill(known: weakref.ref[Any]) -> None:
    process = known()
    with suppress(ValueError):  # it was closed
        if process is not None and process.is_alive():
            process.kill()


def end_processes(processes: Iterable[Any], patience: float, *, stay: bool = False) -> None:
    """Wait `patience` seconds for processes that were asked to end; then terminate and finally kill them.

    `stay`: they ignore SIGTERM, so they are killed at once.
    """
    remaining = list(processes)
    deadline = time.monotonic() + patience
    for end in (None, "kill") if stay else (None, "terminate", "kill"):
        for process in remaining:
            if end and process.is_alive():
                getattr(process, end)()
        for process in remaining:
            process.join(max(deadline - time.monotonic(), 0.0))
        deadline = time.monotonic() + _TERMINATION


def limit_silence(pipe: Connection) -> None:
    """Let reading from a pipe to a worker fail where a message has begun and its rest does not come."""
    with socket.socket(fileno=os.dup(pipe.fileno())) as channel:  # both are one socket, which has the option
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _SILENCE, 0))


def is_spoilt(exc: Exception) -> bool:
    """Return True if reading a message failed because it is none, and not because its process has ended.

    The end of a process may tear its last message.
    """
    if isinstance(exc, OSError):
        return bool(exc.args) and exc.args[0] in _GARBLED
    return not isinstance(exc, EOFError) or bool(exc.args)


def how_it_ended(code: int | None) -> str:
    """Return the end of a sentence about a process that died with this exit code."""
    if code is None or code >= 0:
        return f" with exit code {code}"
    name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
    return f" with exit code {code} ({name})" + ("; was there too little memory?" if name == "SIGKILL" else "")
