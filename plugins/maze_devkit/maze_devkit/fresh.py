"""Calls functions in new processes, in which nothing of a plugin was imported before.

Each is forked from a process that has imported a few modules and has done nothing else: importing torch takes seconds,
forking takes milliseconds. Where forking is not safe, each is started anew.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

FORKS = sys.platform.startswith("linux")
"""True where a process may be forked after it has imported libraries with threads and frameworks of their own."""
SECONDS = 300
"""Most seconds that a call may take."""
LEARNS = ("gymnasium", "maze_core.plugins.base", "maze_core.plugins.hookspecs", "maze_core.learn.algorithm",
          "maze_devkit.process")  # fmt: skip
"""What a process that learns imports anyway. Checks that name the same modules share the process forked from."""
_START = """
import json, sys
sys.path[:], first, forks = json.loads(sys.argv[1])
from maze_devkit.fresh import serve
serve(first, forks)
"""


@dataclass(frozen=True)
class Done:
    """What came of a call in a new process."""

    code: int
    """The exit code; minus the number of the signal that ended it, if one did."""
    printed: str
    """Its standard output."""
    said: str
    """Its standard error."""
    result: Any
    """What the function returned, as plain data; None if it did not return."""

    @property
    def reason(self) -> str:
        """The last line of its standard error, or its exit code."""
        return (self.said.strip().splitlines() or [f"exit code {self.code}"])[-1]


class Fresh:
    """New processes. Close it after the last call."""

    def __init__(self) -> None:
        self._parents: dict[tuple[str, ...], subprocess.Popen[str]] = {}

    def call(
        self,
        first: Sequence[str],
        function: str,
        *arguments: Any,
        folder: Path | None = None,
        cut_off: bool = False,
    ) -> Done:
        """Call a function in a new process.

        Args:
            first: the modules that are imported before.
            function: `module:name`.
            arguments: plain data.
            folder: the working directory; None: that of this process.
            cut_off: leave out what a process does at its end, where only the result counts: with torch that is half a
                second.
        """
        with tempfile.TemporaryDirectory(prefix="maze-fresh-", ignore_cleanup_errors=True) as place:
            task = {
                "path": sys.path,
                "variables": dict(os.environ),
                "folder": str(folder or Path.cwd()),
                "place": place,
                "seconds": SECONDS,
                "function": function,
                "arguments": arguments,
                "cut_off": cut_off,
            }
            printed, said, result = (Path(place) / name for name in ("printed", "said", "result"))
            for file in (printed, said):
                file.touch()
            code = self._ask(tuple(first), json.dumps(task) + "\n")
            texts = [file.read_text(errors="replace") for file in (printed, said)]
            return Done(code, texts[0], texts[1], json.loads(result.read_text()) if result.exists() else None)

    def _ask(self, first: tuple[str, ...], task: str) -> int:
        if not FORKS:
            return subprocess.run(_command(first), input=task, text=True, check=False).returncode  # noqa: S603
        if first not in self._parents:
            self._parents[first] = subprocess.Popen(  # noqa: S603
                _command(first),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # so that it and its children can be ended together
            )
        parent = self._parents[first]
        if parent.stdin is not None and parent.stdout is not None:
            try:
                with suppress(BrokenPipeError):
                    parent.stdin.write(task)
                    parent.stdin.flush()
                if answer := parent.stdout.readline():
                    return int(answer)
            except BaseException:  # Ctrl-C, or the time of a check is up
                del self._parents[first]
                os.killpg(parent.pid, signal.SIGKILL)
                parent.wait()
                raise
        del self._parents[first]
        raise RuntimeError(f"the process that imports {', '.join(first)} has ended with {parent.wait()}")

    def close(self) -> None:
        """End the processes that were forked from; safe to call twice."""
        for parent in self._parents.values():
            with suppress(BrokenPipeError):
                parent.communicate()
        self._parents.clear()


def _command(first: Sequence[str]) -> list[str]:
    return [sys.executable, "-P", "-W", "ignore", "-c", _START, json.dumps([sys.path, first, FORKS])]


def serve(first: Sequence[str], forks: bool) -> None:
    """Import modules, then carry out each task from standard input in a process forked for it, or the only one here.

    A forked process returns from here too: it ends as any other does, when the main module is through.
    """
    for name in first:
        import_module(name)
    gc.freeze()  # in a forked process, looking through all of this for garbage would copy it
    for line in sys.stdin:
        if not forks or os.fork() == 0:
            _carry_out(**json.loads(line))
            return
        print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)


def _carry_out(
    path: list[str],
    variables: Mapping[str, str],
    folder: str,
    place: str,
    seconds: int,
    function: str,
    arguments: list[Any],
    cut_off: bool,
) -> None:
    """Call the function with files in `place` for what it prints and returns."""
    sys.path[:] = path
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    _redirect(Path(place))
    _draw_new_seeds()
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)
    module, _, name = function.partition(":")
    result = getattr(import_module(module), name)(*arguments)
    (Path(place) / "result").write_text(json.dumps(result))
    if cut_off:
        os._exit(0)


def _redirect(place: Path) -> None:
    """Give the process files for its standard streams, and nothing to read."""
    for number, (name, flags) in enumerate(
        ((os.devnull, os.O_RDONLY), ("printed", os.O_WRONLY), ("said", os.O_WRONLY))
    ):
        file = os.open(name if number == 0 else place / name, flags)
        os.dup2(file, number)
        os.close(file)


def _draw_new_seeds() -> None:
    """Seed what every new process seeds by chance, and forked ones would have in common."""
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
