"""Compiles the operations of a step to machine code, in a process of its own, and loads it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maze_core.base.guarded_folder import GuardedFolder
from maze_core.learn.repeated import compiler
from maze_core.learn.repeated.steps import CannotRepeatError, errors_refuse

Library = Callable[[list[Tensor]], list[Tensor]]
"""Returns outputs for inputs, as `Tape.description` lists them. No gradient flows through it."""


def check_compiler() -> None:
    """Raise CannotRepeatError where there is no C++ compiler, or where this torch does not load what it makes."""
    program = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    if shutil.which(program) is None:
        raise CannotRepeatError(f"there is no C++ compiler {program!r} (the environment variable CXX names another)")
    if _loader() is None:
        raise CannotRepeatError(f"torch {torch.__version__} cannot load them")


class Compilation:
    """The operations of a `Tape` on their way to machine code, in a process of its own.

    All files are gone once the result is loaded or the object is closed, or when this process has ended before.

    Raises:
        CannotRepeatError: the process cannot be started.
    """

    def __init__(self, description: dict[str, Any]) -> None:
        with errors_refuse(), ExitStack() as until_started:
            self._guarded = until_started.enter_context(closing(GuardedFolder("maze-compile-", patience=5.0)))
            (self._guarded.path / "step.json").write_text(json.dumps(description), encoding="utf-8")
            self._process = _start(self._guarded.path)
            until_started.pop_all()

    def result(self) -> Library:
        """Wait for the compiler, and return what computes the operations.

        Raises:
            CannotRepeatError: it could not be compiled or loaded.
        """
        with errors_refuse(), closing(self):
            code = self._process.wait()
            if code:
                errors = (self._guarded.path / "errors.txt").read_text(encoding="utf-8", errors="replace")
                said = errors.strip().splitlines()
                raise CannotRepeatError(
                    f"the compiler failed: {said[-1]}" if said else f"the compiler ended with {code}"
                )
            library: Library = _loader()(str(self._guarded.path / "step.so"), 1).run
            return library

    def close(self) -> None:
        """End the process and remove its files; safe to call twice."""
        if self._process.stdin is not None:
            self._process.stdin.close()  # the end of its input ends the compiler, with all that it has started
        self._process.wait()
        self._guarded.close()


def _start(folder: Path) -> subprocess.Popen[bytes]:
    """Start the compiler's process; its files are in `folder`."""
    command = [sys.executable, "-P", str(compiler.__file__), str(folder), str(torch.get_num_threads())]
    own = {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    with (folder / "errors.txt").open("w") as errors:
        return subprocess.Popen(  # noqa: S603 — our own program
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, **own, "TORCHINDUCTOR_COMPILE_THREADS": "1"},
            start_new_session=True,  # Ctrl-C lets the run end after this step, which is taken as in an unbroken run
        )


def _loader() -> Any:
    return getattr(getattr(torch._C, "_aoti", None), "AOTIModelContainerRunnerCpu", None)
