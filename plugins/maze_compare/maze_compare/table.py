"""A table of runs that is drawn again and again: their progress, speed, returns and what is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_compare.groups import MISSING, number
from maze_compare.records import DamagedRun, RunRecord, read_or_damaged, run_folders
from maze_core.base.plain_json import is_count, is_number
from maze_core.base.terminal_text import counted, printable
from maze_core.plugins.config.record import CONFIG, RECORD
from maze_core.run.saved.append_only import METRICS_FILE
from maze_core.run.saved.run_dir import is_locked

if TYPE_CHECKING:
    from rich.console import RenderableType

_BLOCKS = "▁▂▃▄▅▆▇█"
_POINTS = 16
_STYLES = {
    "running": "bold green",
    "failed": "bold red",
    "damaged": "bold red",
    "interrupted": "yellow",
    "killed": "red",
}
_LONGEST = 60
"""Most characters of a name in the table."""


Found = RunRecord | DamagedRun


class Runs:
    """The runs in and below some folders; each is read again only if its files change, or its process ends."""

    def __init__(self, places: Sequence[Path], wanted: Callable[[Found], bool] = lambda run: True) -> None:
        self._places, self._wanted = places, wanted
        self._known: dict[Path, tuple[Any, Found]] = {}

    def read(self) -> list[Found]:
        """Return them as they are now: running ones first, then the one that changed last."""
        folders = {folder.resolve(): folder for place in self._places for folder in run_folders(place)}
        self._known = {key: self._current(key, folder) for key, folder in folders.items()}
        found = [(signature, run) for signature, run in self._known.values() if self._wanted(run)]
        found.sort(key=lambda each: (_state(each[1]) != "running", -max(each[0], default=0)))
        return [run for _, run in found]

    def _current(self, key: Path, folder: Path) -> tuple[Any, Found]:
        signature, known = _signature(folder), self._known.get(key)
        if known is None or known[0] != signature:
            return signature, read_or_damaged(folder)
        alive = _state(known[1]) == "running"
        changed = _state(known[1]) in ("running", "killed") and is_locked(folder) != alive
        return (signature, read_or_damaged(folder)) if changed else known


def _signature(folder: Path) -> tuple[int, ...]:
    """Return when a run's files were written; 0 for one that is missing."""

    def written(name: str) -> int:
        try:
            return (folder / name).lstat().st_mtime_ns
        except OSError:
            return 0

    return tuple(written(name) for name in (CONFIG, RECORD, METRICS_FILE))


def _state(run: Found) -> str:
    return run.state if isinstance(run, RunRecord) else "damaged"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    fraction: float | None
    """In [0, 1]; None if it has no fixed end."""
    seconds_left: float | None


def progress(run: RunRecord) -> Progress:
    """Return how far a run is by its configured steps or epochs, and how long the rest takes at its pace so far."""
    algorithm = run.config["algorithm"]
    ends = ((run.count("env_steps"), run.config.get("steps")), (run.count("epoch"), algorithm.get("n_epochs")))
    shares = [done / end for done, end in ends if is_count(end) and end]
    if not shares:
        return Progress(None, None)
    fraction = min(max(0.0, *shares), 1.0)
    seconds = run.count("seconds")
    left = seconds * (1 - fraction) / fraction if fraction and run.state == "running" else None
    return Progress(fraction, left)


def sparkline(values: Sequence[float], points: int = _POINTS) -> str:
    """Return a curve of finite numbers in at most `points` characters; each shows the mean of its share of them."""
    finite = [value / 4 for value in values if math.isfinite(value)]  # no difference of two can overflow
    count = min(points, len(finite))
    edges = [len(finite) * k // count for k in range(count + 1)] if count else []
    means = [math.fsum(v / (b - a) for v in finite[a:b]) for a, b in pairwise(edges)]
    if not means:
        return ""
    low, span = min(means), max(means) - min(means)
    return "".join(_BLOCKS[round((value - low) / span * 7) if span else 3] for value in means)


def runs_table(runs: Sequence[Found], metric: str, width: int, height: int, unicode: bool = True) -> RenderableType:
    """Return a table of at most `height` lines.

    Args:
        runs: in the order in which they are shown; those that do not fit are counted.
        metric: whose curve is shown.
        width: characters of a line; where it is narrow, columns are left out.
        height: lines of the terminal.
        unicode: the terminal can show block characters.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    shown = runs[: max(1, height - 5)]
    columns, room = _fitting(width)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for title in columns:
        justify: Any = "right" if title in _NUMBERS else "left"
        table.add_column(title, justify=justify, no_wrap=True, overflow="ellipsis", width=_WIDTHS.get(title, room))
    for run in shown:
        cells = _row(run, metric, room, unicode)
        table.add_row(*(Text(printable(cells[title][0], _LONGEST), cells[title][1]) for title in columns))
    states = [_state(run) for run in runs]
    counts = ", ".join(f"{states.count(each)} {each}" for each in dict.fromkeys(states))
    first = f"{counted(len(runs), 'run')}{': ' if counts else ''}{counts}"
    lines: list[Any] = [Text(first, "bold", no_wrap=True), table]
    if len(runs) > len(shown):
        lines.append(Text(f"… and {counted(len(runs) - len(shown), 'more run')}", "dim", no_wrap=True))
    said = f"{time.strftime('%H:%M:%S')}  curve: {_curve(runs, metric)}  Ctrl-C ends"
    return Group(*lines, Text(said, "dim", no_wrap=True))


def _curve(runs: Sequence[Found], metric: str) -> str:
    """Return the name of the metric; if no run has it, also what it may have been."""
    from maze_core.plugins.config.explain import nearest

    name = printable(metric, _LONGEST)
    known = {each for run in runs if isinstance(run, RunRecord) for epoch in run.epochs for each in epoch}
    if not known or metric in known:
        return name
    return f"no run has {name}; {printable(nearest(metric, sorted(known)))}"


_WIDTHS = {
    "state": 11, "done": 5, "last": 9, "best": 9, "curve": _POINTS, "algorithm": 10, "left": 8, "steps": 11,
    "env": 20, "steps/s": 8,
}  # fmt: skip
"""The widths of all columns but `run`, the most important first."""
_ORDER = ("run", "algorithm", "env", "state", "steps", "done", "left", "steps/s", "best", "last", "curve")
_NUMBERS = ("steps", "done", "left", "steps/s", "best", "last")
_GAP = 2


def _fitting(width: int) -> tuple[list[str], int]:
    """Return the columns that fit into a line, and the width of the column `run`, which has at least 20 characters."""
    room, chosen = max(width, 22), {"run"}
    for title, needed in _WIDTHS.items():
        if room - needed - 2 * _GAP < 20:
            break
        room -= needed + _GAP
        chosen.add(title)
    return [title for title in _ORDER if title in chosen], min(room - _GAP, _LONGEST)


def _row(run: Found, metric: str, room: int, unicode: bool) -> dict[str, tuple[str, str]]:
    """Return the cells of a run with their styles; `room`: characters for its path."""
    state = _state(run)
    cells = dict.fromkeys(_ORDER, ("", ""))
    cells |= {"run": (_end(str(run.path), room), ""), "state": (state, _STYLES.get(state, ""))}
    if isinstance(run, DamagedRun):
        return cells
    done = progress(run)
    speed = run.epochs[-1].get("time/env_steps_per_second") if run.epochs and state == "running" else None
    series = run.series(metric)
    return cells | {
        "algorithm": (run.algorithm, ""),
        "env": (run.env, ""),
        "steps": (f"{run.count('env_steps'):,.0f}", ""),
        "done": (MISSING if done.fraction is None else f"{done.fraction:.0%}", ""),
        "left": (MISSING if done.seconds_left is None else _duration(done.seconds_left), ""),
        "steps/s": (f"{speed:,.0f}" if is_number(speed) else MISSING, "cyan"),
        "best": (_number(run.value(metric)), "bold"),
        "last": (_number(series[-1] if series else None), ""),
        "curve": (sparkline(series) if unicode else "", "green"),
    }


def _number(value: float | None) -> str:
    return MISSING if value is None else number(value)


def _end(path: str, room: int) -> str:
    """Return the end of a long path, which tells runs apart."""
    safe = printable(path)
    return safe if len(safe) <= room else "…" + safe[1 - room :]


def _duration(seconds: float) -> str:
    """Return a time such as `4:05`, `2:10:00` or `3 days`."""
    if not seconds < 1e9:
        return "years"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} days"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
