"""Resumes a run in a new process, which shares nothing with the process that started it."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors.torch import load_file, save_file

from maze_core.plugins.discovery import Declaration
from maze_devkit import runs
from maze_devkit.findings import Failed
from maze_devkit.fresh import LEARNS
from maze_devkit.subject import Subject

if TYPE_CHECKING:
    import torch


def resume(subject: Subject, folder: Path, epochs: int) -> dict[str, torch.Tensor]:
    """Reopen a saved run of `runs.walk` in a new process, train it to `epochs`, and return what it learned.

    Raises:
        Failed: the run fails before that.
    """
    claim, result = subject.claim, subject.folder / "resumed.safetensors"
    named = [claim.kind, claim.name, claim.entry_point.value, claim.entry_point.group, claim.distribution]
    task = [*named, claim.version, str(subject.folder / "elsewhere"), str(folder), epochs, str(result)]
    done = subject.bench.fresh.call(LEARNS, f"{__name__}:main", *task, cut_off=True)
    if done.code:
        raise Failed(f"reopened in a new process, a run fails: {done.reason}")
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
