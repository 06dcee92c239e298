"""Resumes a run in a new process, which shares nothing with the process that started it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors.torch import load_file, save_file

from maze_core.plugins.discovery import Declaration
from maze_devkit import runs
from maze_devkit.findings import Failed
from maze_devkit.subject import Subject

if TYPE_CHECKING:
    import torch

_CHILD = """
import json, sys
sys.path[:], task = json.loads(sys.argv[1])
from maze_devkit.elsewhere import main
main(*task)
"""
_TIMEOUT = 300.0


def resume(subject: Subject, folder: Path, epochs: int) -> dict[str, torch.Tensor]:
    """Reopen a saved run of `runs.walk` in a new process, train it to `epochs`, and return what it learned.

    Raises:
        Failed: the run fails before that.
    """
    claim, result = subject.claim, subject.folder / "resumed.safetensors"
    named = [claim.kind, claim.name, claim.entry_point.value, claim.entry_point.group, claim.distribution]
    task = [*named, claim.version, str(subject.folder / "elsewhere"), str(folder), epochs, str(result)]
    command = [sys.executable, "-W", "ignore", "-c", _CHILD, json.dumps([sys.path, task])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)  # noqa: S603
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise Failed(f"reopened in a new process, a run fails: {reason}")
    return load_file(result)


def main(
    kind: str,
    name: str,
    value: str,
    group: str,
    distribution: str,
    version: str,
    folder: str,
    run_dir: str,
    epochs: int,
    result: str,
) -> None:
    """Run in the new process: resume the run in `run_dir`, and write what it learned to `result`."""
    claim = Declaration(kind, name, EntryPoint(name, value, group), distribution, version)
    subject = Subject(claim, Path(folder))
    save_file(runs.resume(subject, runs.walk(subject), Path(run_dir), epochs), result)
