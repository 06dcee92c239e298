"""Children of a warm process: one that has imported everything and forks for each command, which costs milliseconds.

The process must have no second thread: a lock that another thread held would stay locked in the child.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.forked import stand_by

MEMORY = 2**30
"""Bytes that a command may take beside what is there already."""
FRESH_MEMORY = 8 * 2**30
FILE_SIZE = 2**28
HANGS = 60.0
"""Seconds after which a command that has not ended is said to hang; a busy machine makes all of them slow."""
PATIENCE = 8.0
"""Seconds in which what a command started must be gone after it."""
_PR_SET_CHILD_SUBREAPER = 36
_HELD = 30_000_000

Action = Callable[[], int]
"""What a child does; returns its exit code."""


@dataclass(frozen=True)
class Ending:
    """How a command ended, and what it said."""

    code: int
    """Exit code; less than zero: the signal that killed it."""
    out: str
    err: str
    seconds: float
    timed_out: bool
    left: tuple[str, ...]
    """The processes it left behind, which were ended."""

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL and not self.timed_out


def adopt_orphans() -> None:
    """Become the parent of what a child leaves behind, so that it is found."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def in_child(action: Action, folder: Path, scratch: Path, seconds: float = HANGS) -> Ending:
    """Run `action` in a forked child whose working directory is `folder`; `scratch` takes what it says."""
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise RuntimeError(f"{threads} threads: a fork would not be safe")
    began = time.monotonic()
    outputs = [scratch / "stdout", scratch / "stderr"]
    pid = os.fork()
    if pid == 0:
        _be_child(action, folder, outputs)
    timed_out = False
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() - began > seconds and not timed_out:
            timed_out = True
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.002)
    took = time.monotonic() - began
    texts = [_text(path) for path in outputs]
    return Ending(os.waitstatus_to_exitcode(status), *texts, took, timed_out, _orphans())


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_HELD).decode(errors="replace")


def _be_child(action: Action, folder: Path, outputs: Sequence[Path]) -> None:
    code = 70
    try:
        os.setsid()
        with Path("/dev/null").open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        for number, path in enumerate(outputs, 1):
            with path.open("wb") as file:
                os.dup2(file.fileno(), number)
        os.chdir(folder)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, resource.RLIM_INFINITY))
        code = action()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 — a child ends here, whatever happened
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def maze(arguments: Sequence[object], *, workers: bool = False) -> Action:
    """The command line, in a child; `workers`: it starts some."""

    def action() -> int:
        from maze_core.cli.main import main

        if workers:
            stand_by()
        sys.argv = ["maze", *map(str, arguments)]
        try:
            main()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        return 0

    return action


def fresh(arguments: Sequence[object], root: Path, memory: int = FRESH_MEMORY) -> Action:
    """The command line, in a process of its own that has imported nothing; `root` is where the core lies."""

    def action() -> int:
        path = [str(root), *map(str, sorted([*root.glob("libraries/*"), *root.glob("plugins/*")]))]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}
        launch = "import sys; sys.path.remove(''); from maze_core.cli.main import main; main()"
        resource.setrlimit(resource.RLIMIT_AS, (memory, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (memory, resource.RLIM_INFINITY))
        os.execve(sys.executable, [sys.executable, "-c", launch, *map(str, arguments)], environment)

    return action


def _orphans() -> tuple[str, ...]:
    """What is left of a command after a moment; it is ended."""
    deadline = time.monotonic() + PATIENCE
    while _any_child():
        if time.monotonic() > deadline:
            return tuple(_end_children())
        time.sleep(0.005)
    return ()


def _any_child() -> bool:
    """Whether there is a child; those that ended are taken note of."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _end_children() -> Iterator[str]:
    while _any_child():
        for pid in Path("/proc/self/task", str(os.getpid()), "children").read_text().split():
            yield Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
            os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.01)


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Press Ctrl-C twice after some seconds of work, or of much waiting: a valid configuration may make a long run."""

    def press(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    timers = {signal.ITIMER_PROF: (signal.SIGPROF, seconds), signal.ITIMER_REAL: (signal.SIGALRM, 5 * seconds)}
    for timer, (number, limit) in timers.items():
        signal.signal(number, press)
        signal.setitimer(timer, limit, 1.0)
    yield
    for timer in timers:
        signal.setitimer(timer, 0)
