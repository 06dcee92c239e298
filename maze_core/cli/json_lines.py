"""Writes every epoch as one line of JSON to `metrics.jsonl`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_core.base import files
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run.saved.append_only import METRICS_FILE

if TYPE_CHECKING:
    from maze_core.run.report import EpochReport
    from maze_core.run.run import Run


class JsonLines(Plugin):
    """Append each epoch's counters and metrics to `metrics.jsonl` in the run directory.

    A line holds `epoch`, `env_steps`, `updates`, `seconds` (units as in `EpochReport`) and all metrics by
    name; a number that is not finite is `null`. After a resume no epoch is there twice. Without a run
    directory it does nothing.
    """

    @hookimpl
    def on_run_start(self, run: Run) -> None:
        """Drop the epochs that the run will repeat: those after its checkpoint."""
        if run.run_dir is not None:
            drop_epochs_after(run.run_dir / METRICS_FILE, run.epoch)

    @hookimpl
    def on_epoch_end(self, run: Run, epoch: EpochReport) -> None:
        """Write and flush the epoch's line."""
        if run.run_dir is None:
            return
        line = json.dumps(as_record(epoch), allow_nan=False)
        with files.open_file(run.run_dir / METRICS_FILE, "ab") as file:
            file.write(line.encode() + b"\n")


def as_record(epoch: EpochReport) -> dict[str, float | None]:
    """Return the epoch as a flat JSON object."""
    counters = {
        "epoch": epoch.epoch,
        "env_steps": epoch.env_steps,
        "updates": epoch.updates,
        "seconds": epoch.seconds,
    }
    values = {name: float(value) for name, value in epoch.metrics.items()}
    return {**counters, **{name: value if math.isfinite(value) else None for name, value in values.items()}}


def drop_epochs_after(path: Path, last_epoch: int) -> None:
    """Keep one line per epoch up to `last_epoch`, and drop damaged ones. A missing file stays missing."""
    if not path.exists():
        return
    from maze_core.run.saved.metrics_file import parsed_lines

    kept: dict[float, bytes] = {}
    for line, epoch in parsed_lines(path):
        if (number := _number(epoch)) <= last_epoch:
            kept.setdefault(number, line)
    with files.replacing(path) as file:
        file.writelines(kept.values())


def _number(epoch: dict[str, Any] | None) -> float:
    number = (epoch or {}).get("epoch")
    return number if isinstance(number, int) else math.inf
