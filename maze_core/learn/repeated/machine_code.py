"""Compiles the operations of a step to machine code, in a process of its own, and loads it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maze_core.base.guarded_folder import GuardedFolder
from maze_core.learn.repeated import compiler
from maze_core.learn.repeated.steps import CannotRepeatError

Library = Callable[[list[Tensor]], list[Tensor]]
"""Returns outputs for inputs, as `Tape.description` lists them. No gradient flows through it."""


def check_compiler() -> None:
    """Raise CannotRepeatError where there is no C++ compiler, or where this torch does not load what it makes."""
    program = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    if shutil.which(program) is None:
        raise CannotRepeatError(f"there is no C++ compiler {program!r} (the environment variable CXX names another)")
    if _loader() is None:
        raise CannotRepeatError(f"torch {torch.__version__} cannot load them")


def compiled(description: dict[str, Any]) -> Library:
    """Return what computes the operations of a `Tape`.

    All files are gone when it returns, or when this process ends before.

    Raises:
        CannotRepeatError: it could not be compiled or loaded.
    """
    try:
        with closing(GuardedFolder("maze-compile-", patience=5.0)) as guarded:
            (guarded.path / "step.json").write_text(json.dumps(description), encoding="utf-8")
            _compile(guarded.path)
            return _loaded(guarded.path / "step.so")
    except OSError as error:
        raise CannotRepeatError(str(error)) from error


def _compile(folder: Path) -> None:
    """Run the compiler's process; its files are in `folder`."""
    command = [sys.executable, "-P", str(compiler.__file__), str(folder), str(torch.get_num_threads())]
    own = {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    with (
        (folder / "errors.txt").open("w") as errors,
        subprocess.Popen(  # noqa: S603 — our own program
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, **own, "TORCHINDUCTOR_COMPILE_THREADS": "1"},
            start_new_session=True,  # Ctrl-C lets the run end after this step, which is taken as in an unbroken run
        ) as process,
    ):
        code = process.wait()  # where this is interrupted, the end of standard input ends the process
    if code:
        said = (folder / "errors.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise CannotRepeatError(f"the compiler failed: {said[-1]}" if said else f"the compiler ended with {code}")


def _loaded(file: Path) -> Library:
    try:
        library: Library = _loader()(str(file), 1).run
    except RuntimeError as error:
        raise CannotRepeatError(str(error).splitlines()[0]) from error
    return library


def _loader() -> Any:
    return getattr(getattr(torch._C, "_aoti", None), "AOTIModelContainerRunnerCpu", None)
