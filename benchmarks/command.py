"""The `maze` command of the Python that runs a benchmark, one thread for each process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

MAZE = Path(sys.executable).with_name("maze")


def one_thread() -> dict[str, str]:
    """This process's environment variables, with one thread for numerical libraries, and compiled modules kept."""
    jax = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "XLA_FLAGS": jax}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return variables


def maze(*arguments: str) -> str:
    """Run a command; its output. One that fails ends the program and says why."""
    return _output(f"maze {' '.join(arguments)}", [str(MAZE), *arguments])


def figures(python: Path, script: Path, *arguments: str) -> dict[str, float]:
    """Run a script whose last line is JSON; its figures. One that fails ends the program and says why."""
    printed = _output(script.name, [str(python), str(script), *arguments])
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def _output(name: str, command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=one_thread(), check=False)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout
