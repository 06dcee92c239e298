"""Compiles the operations of a step to machine code, in a process of its own, and loads it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maze_compile import compiler
from maze_compile.steps import CannotRepeatError, errors_refuse
from maze_core.base.files import GuardedFolder
from maze_core.base.interruption import Preempted
from maze_core.base.tolerant_output import to_stderr

Library = Callable[[list[Tensor]], list[Tensor]]
"""Returns outputs for inputs, as `Tape.description` lists them. No gradient flows through it."""

_LONG = 60.0
"""Seconds of waiting after which a line says what is waited for."""
_LIMIT = 600.0
"""Seconds that a run waits for the compiler: it takes 10 to 20 on a machine that has nothing else to do."""
_LOOK = 0.2
"""Seconds of waiting between two looks at whether the run was asked to end."""


def _program() -> str:
    return os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")


class Compilation:
    """The operations of a `Tape` on their way to machine code, in a process of its own.

    All files are gone once the result is loaded or the object is closed, or when this process has ended before.

    Raises:
        CannotRepeatError: the process cannot be started.
    """

    @staticmethod
    def check() -> None:
        """Raise CannotRepeatError where there is no C++ compiler, or where this torch does not load what it makes."""
        program = _program()
        if shutil.which(program) is None:
            raise CannotRepeatError(
                f"there is no C++ compiler {program!r} (the environment variable CXX names another)"
            )
        if _loader() is None:
            raise CannotRepeatError(f"torch {torch.__version__} cannot load them")

    def __init__(self, description: dict[str, Any]) -> None:
        with errors_refuse(), ExitStack() as until_started:
            self._guarded = until_started.enter_context(closing(GuardedFolder("maze-compile-", patience=5.0)))
            (self._guarded.path / "step.json").write_text(json.dumps(description), encoding="utf-8")
            self._process = _start(self._guarded.path)
            until_started.pop_all()

    def result(self, interrupted: Callable[[], bool] = lambda: False) -> Library:
        """Wait for the compiler, and return what computes the operations.

        Args:
            interrupted: whether somebody has asked for the end of the run.

        Raises:
            CannotRepeatError: it could not be compiled or loaded, or takes too long.
            Preempted: the run was asked to end. The step that waits cannot be taken.
        """
        with errors_refuse(), closing(self):
            code = self._wait(interrupted)
            if code:
                errors = (self._guarded.path / "errors.txt").read_text(encoding="utf-8", errors="replace")
                said = errors.strip().splitlines()
                raise CannotRepeatError(
                    f"the compiler failed: {said[-1]}" if said else f"the compiler ended with {code}"
                )
            library: Library = _loader()(str(self._guarded.path / "step.so"), 1).run
            return library

    def _wait(self, interrupted: Callable[[], bool]) -> int:
        began, told = time.monotonic(), False
        while (waited := time.monotonic() - began) < _LIMIT:
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(_LOOK)
            if interrupted():
                raise Preempted(signal.SIGINT)
            if waited >= _LONG and not told:
                told = True
                left = f"after {_LIMIT / 60:.0f} minutes the run goes on without it"
                to_stderr(f"note: still waiting for the compiler {_program()!r}; {left}, Ctrl-C ends the run")
        raise CannotRepeatError(f"the compiler {_program()!r} has not ended in {_LIMIT:.0f} seconds")

    def close(self) -> None:
        """End the process, with all that it has started, and remove its files; safe to call twice."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        self._guarded.close()


def _start(folder: Path) -> subprocess.Popen[bytes]:
    """Start the compiler's process; its files are in `folder`.

    It and what it starts, such as Pythons that try what a processor can do, find no modules of the current folder.
    """
    command = [sys.executable, "-P", str(compiler.__file__), str(folder), str(torch.get_num_threads())]
    own = {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), "PYTHONSAFEPATH": "1"}
    if os.sep in _program():
        own["CXX"] = str(Path(_program()).absolute())
    with (folder / "errors.txt").open("w") as errors:
        return subprocess.Popen(  # noqa: S603 — our own program
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=folder,
            env={**os.environ, **own, "TORCHINDUCTOR_COMPILE_THREADS": "1"},
            start_new_session=True,  # Ctrl-C reaches the run alone, which decides what ends
        )


def _loader() -> Any:
    return getattr(getattr(torch._C, "_aoti", None), "AOTIModelContainerRunnerCpu", None)
