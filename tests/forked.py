"""Commands in processes forked from one that has imported everything: that takes milliseconds instead of seconds.

A test whose point is a fresh interpreter starts one itself.
"""

from __future__ import annotations

import atexit
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
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_LARGEST = 2**20
_MAZE = "from maze_core.cli.main import main; main()"


class Forked:
    """The command line in a process of its own, used as a `subprocess.Popen`; its output lies in files meanwhile.

    `program`: what it runs, with the arguments in `sys.argv[1:]`.
    """

    def __init__(self, arguments: Sequence[object], cwd: Path, env: Mapping[str, str], program: str = _MAZE) -> None:
        self.args = ["maze", *map(str, arguments)]
        self.returncode: int | None = None
        self._output = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]  # noqa: SIM115 — closed with this object
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.connect(_server())
        asked = json.dumps({"argv": self.args, "cwd": str(cwd), "env": dict(env), "program": program}).encode()
        socket.send_fds(self._channel, [asked], [file.fileno() for file in self._output])
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

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _waited(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._channel], [], [], timeout)[0]:
            self.returncode = int(self._channel.recv(64))
            self._channel.close()
        return self.returncode


@cache
def _server() -> str:
    """Address of the server of this process, which ends with it."""
    from tests.attack.warm import MODULES, bundled

    folder = tempfile.TemporaryDirectory(prefix="forked-")
    address = f"{folder.name}/socket"
    code = f"from tests.forked import serve; serve({address!r}, {[*MODULES, *bundled()]!r})"
    server = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE)
    atexit.register(folder.cleanup)
    atexit.register(server.wait)
    assert server.stdin is not None
    atexit.register(server.stdin.close)
    deadline = time.monotonic() + 120
    while not Path(address).exists():
        assert server.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return address


def serve(address: str, modules: list[str]) -> None:
    """Fork a process for each connection, until standard input is closed."""
    for name in modules:
        importlib.import_module(name)
    gc.freeze()
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
    code = 1
    try:
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
        exec(asked["program"], {"__name__": "__main__"})
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 — a child ends here, whatever happened
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
