"""Commands in processes forked from one that has imported everything: that takes milliseconds instead of seconds.

A test whose point is a fresh interpreter starts one itself.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import util
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_LARGEST = 2**20
_MAZE = "from maze_core.cli.main import main; main()"
WITH_WORKERS = f"from tests.forked import stand_by; stand_by()\n{_MAZE}"
"""The command line, for a command that starts workers."""
_SHARED, _OPEN, _LOCK, _SOCKET = "MAZE_TESTS_FORKED", "open", "lock", "socket"
"""The variable that names a folder that processes of tests share, and the files in it."""


class Forked:
    """The command line in a process of its own, used as a `subprocess.Popen`; its output lies in files meanwhile.

    `program`: what it runs, with the arguments in `sys.argv[1:]`. `late`: what its server has imported besides.
    `whole`: it ends as an interpreter does, for tests of what happens there; that takes a moment.
    """

    def __init__(
        self,
        arguments: Sequence[object],
        cwd: Path,
        env: Mapping[str, str],
        program: str = _MAZE,
        late: tuple[str, ...] = (),
        *,
        whole: bool = False,
    ) -> None:
        self.args = ["maze", *map(str, arguments)]
        self.returncode: int | None = None
        self._output = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]  # noqa: SIM115 — closed with this object
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.connect(_server(late))
        asked = {"argv": self.args, "cwd": str(cwd), "env": dict(env), "program": program, "whole": whole}
        socket.send_fds(self._channel, [json.dumps(asked).encode()], [file.fileno() for file in self._output])
        self.pid = int(self._channel.recv(64))

    def poll(self) -> int | None:
        """Exit code; None while it runs."""
        return self._waited(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        code = self._waited(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; what it wrote."""
        self.wait(timeout)
        texts = []
        for file in self._output:
            file.seek(0)
            texts.append(file.read().decode())
        return texts[0], texts[1]

    def send_signal(self, number: int) -> None:
        """Send a signal if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _waited(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._channel], [], [], timeout)[0]:
            self.returncode = int(self._channel.recv(64))
            self._channel.close()
        return self.returncode


@contextmanager
def one_server() -> Iterator[None]:
    """Let the processes that are started inside share one server; the first that needs it starts it, in two seconds."""
    with tempfile.TemporaryDirectory(prefix="forked-") as folder:
        os.mkfifo(f"{folder}/{_OPEN}")
        held = os.open(f"{folder}/{_OPEN}", os.O_RDWR)  # the server ends when nobody can write there any more
        os.environ[_SHARED] = folder
        try:
            yield
        finally:
            del os.environ[_SHARED]
            os.close(held)


@cache
def _server(late: tuple[str, ...]) -> str:
    """Address of the server of this process, which ends with it, or of the one that it shares."""
    if folder := os.environ.get(_SHARED):
        address = f"{folder}/{_SOCKET}{zlib.crc32(repr(late).encode()) if late else ''}"
        with Path(folder, _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not Path(address).exists():
                with Path(folder, _OPEN).open("rb", buffering=0) as lasting:
                    # It is no child of this process: tests look at theirs.
                    _start(address, late, "import os; os.fork() and os._exit(0)", lasting).wait()
                    _await(address)
        return address
    own = tempfile.TemporaryDirectory(prefix="forked-")
    address = f"{own.name}/{_SOCKET}"
    server = _start(address, late, "", subprocess.PIPE)
    atexit.register(own.cleanup)
    atexit.register(server.wait)
    assert server.stdin is not None
    atexit.register(server.stdin.close)
    _await(address, server)
    return address


def _start(address: str, late: tuple[str, ...], first: str, lasting: Any) -> subprocess.Popen[bytes]:
    """Start a server that lasts as long as this input."""
    from tests.attack.warm import MODULES, bundled

    code = f"{first}\nfrom tests.forked import serve; serve({address!r}, {[*MODULES, *bundled(), *late]!r})"
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=lasting)


def _await(address: str, server: subprocess.Popen[bytes] | None = None) -> None:
    deadline = time.monotonic() + 120
    while not Path(address).exists():
        assert server is None or server.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def serve(address: str, modules: list[str]) -> None:
    """Fork a process for each connection, until standard input is closed."""
    for name in modules:
        importlib.import_module(name)
    gc.freeze()
    gc.set_threshold(7000)  # as the tests themselves
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(wake)
    running: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"{address}.new")
        listener.listen()
        Path(f"{address}.new").rename(address)
        while True:
            ready = select.select([listener, woken, 0], [], [])[0]
            if 0 in ready:
                return
            if woken in ready:
                os.read(woken, 4096)
            if listener in ready:
                channel = listener.accept()[0]
                message, files, *_ = socket.recv_fds(channel, _LARGEST, 2)
                pid = os.fork()
                if pid == 0:
                    listener.close()
                    _become(json.loads(message), files)
                running[pid] = channel
                channel.send(str(pid).encode())
                for file in files:
                    os.close(file)
            _reap(running)


def _reap(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        channel = running.pop(pid)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())
        channel.close()


def _become(asked: dict[str, Any], files: list[int]) -> None:
    """In the child: run the program as a new interpreter would."""
    if asked["whole"]:
        _begin(asked, files)
        exec(asked["program"], {"__name__": "__main__"})
        sys.exit()
    code = 1
    try:
        _begin(asked, files)
        exec(asked["program"], {"__name__": "__main__"})
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 — a child ends here, whatever happened
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _begin(asked: dict[str, Any], files: list[int]) -> None:
    """Set up the child: signals, files, current folder, variables, arguments."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate([os.open(os.devnull, os.O_RDONLY), *files]):
        os.dup2(file, number)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    known = set(sys.path)
    sys.path[1:1] = [path for path in asked["env"].get("PYTHONPATH", "").split(os.pathsep) if path not in known]
    sys.argv = asked["argv"]


def stand_by() -> None:
    """Fork what becomes the fork server of this process, if it starts one: its imports, two seconds, are here already.

    For programs that are forked and start workers.
    """
    asks, answers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        asks.close()
        asked, files, *_ = socket.recv_fds(answers, 2**20, 8)
        if asked:
            variables, code, numbers = json.loads(asked)
            os.environ.clear()
            os.environ.update(variables)
            apart = [fcntl.fcntl(file, fcntl.F_DUPFD, 200) for file in files]  # none of them is at another's number
            for file, number in zip(apart, numbers, strict=True):
                os.dup2(file, number)
            with suppress(SystemExit):  # as it ends
                exec(code)
        os._exit(0)
    answers.close()
    start = util.spawnv_passfds

    def spawn(path: str, arguments: list[str], passed: list[int]) -> int:
        if "multiprocessing.forkserver" not in arguments[-1]:
            return start(path, arguments, passed)
        socket.send_fds(asks, [json.dumps([dict(os.environ), arguments[-1], passed]).encode()], passed)
        return pid

    util.spawnv_passfds = spawn
