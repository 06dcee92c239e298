"""Reads `metrics.jsonl` and reports damage in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maze_core.base import files
from maze_core.base.plain_json import is_count, is_number, parse_object
from maze_core.run.saved.append_only import METRICS_FILE, still_holds
from maze_core.run.saved.manifest import Extent

_MOST_BYTES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Metrics:
    """The contents of a `metrics.jsonl`. An incomplete last line, left by a killed process, is in neither field."""

    epochs: tuple[dict[str, Any], ...] = ()
    """The valid lines."""
    damaged: tuple[int, ...] = ()
    """Numbers, from 1, of lines that are not a JSON object of numbers."""


def read_metrics(path: Path) -> Metrics:
    """Read a `metrics.jsonl`; empty if there is none. Raises OSError if it cannot be read."""
    epochs, damaged = [], []
    for number, (_, epoch) in enumerate(parsed_lines(path), 1):
        if epoch is None or not _holds_numbers(epoch):
            damaged.append(number)
        else:
            epochs.append(epoch)
    return Metrics(tuple(epochs), tuple(damaged))


def parsed_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Yield each complete line with its value; None if it is not a JSON object."""
    try:
        for line in files.read_lines(path, _MOST_BYTES):
            epoch = _parsed(line)
            if epoch is not None or line.endswith(b"\n"):
                yield line, epoch
    except FileNotFoundError:
        return


def parsed_epoch(line: bytes) -> dict[str, Any] | None:
    """Return the epoch in a complete line; None if it is not a JSON object of numbers, with the count `epoch`."""
    epoch = _parsed(line)
    return epoch if epoch is not None and _holds_numbers(epoch) and is_count(epoch.get("epoch")) else None


def _holds_numbers(epoch: Mapping[str, Any]) -> bool:
    return all(value is None or is_number(value) for value in epoch.values())


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        return parse_object(line) if line.endswith(b"\n") else None
    except ValueError:
        return None


def damage(run_dir: Path, metrics: Metrics, extents: Mapping[str, Extent]) -> str:
    """Return one sentence about damage in a run's `metrics.jsonl`; empty if there is none.

    `extents`: the file's extent in a checkpoint.
    """
    path, extent = run_dir / METRICS_FILE, extents.get(METRICS_FILE)
    if metrics.damaged:
        lines = ", ".join(map(str, metrics.damaged[:5])) + (", …" if len(metrics.damaged) > 5 else "")
        return f"{path}: line {lines} is damaged and skipped"
    if extent is not None and extent.bytes and not os.path.lexists(path):
        return f"{path} is missing"
    if extent is not None and not still_holds(path, extent, run_dir):
        return f"{path} is damaged: its beginning has changed since the last checkpoint"
    return ""
