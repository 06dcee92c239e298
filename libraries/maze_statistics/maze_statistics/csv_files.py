"""Runs of any program as CSV: a line for each score, with the columns `task, algorithm, seed, step, score`.

Columns may stand in any order; others are ignored. Without `step` each run has one line. Names are text that is never
interpreted. What cannot be used is refused with its line.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import numpy as np

from maze_statistics.errors import ScoresError, short
from maze_statistics.runs import Run

NEEDED = ("task", "algorithm", "seed", "score")
_STEP = "step"
_MOST_BYTES = 200_000_000
_MOST_COLUMNS = 1_000
_LONGEST = 200
"""Most characters of a name."""
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LARGEST = 1e100

_Key = tuple[str, str, str]


def read_csv(path: Path | str) -> list[Run]:
    """Return the runs of a CSV file, in the order in which they first appear.

    Raises:
        ScoresError: it cannot be read, a column is missing, or a line has no usable score; the message has the line.
    """
    path = Path(path)
    scores: dict[_Key, dict[float, float]] = {}
    with _opened(path) as file:
        rows = csv.reader(file, strict=True)
        try:
            columns = _columns(path, next(rows, []))
            for row in rows:
                if any(cell.strip() for cell in row):
                    _add(scores, columns, row, f"{path}, line {rows.line_num}")
        except (csv.Error, UnicodeDecodeError) as error:
            raise ScoresError(f"{path}, line {rows.line_num + 1}: is not CSV in UTF-8: {short(error)}") from None
    if not scores:
        raise ScoresError(f"{path}: there is no score below the names of the columns")
    return [_run(key, each) for key, each in scores.items()]


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Open a file of a size that fits into memory; a device or a pipe might never end."""
    try:
        if not path.is_file():
            raise ScoresError(f"{path}: there is no such file")
        if path.stat().st_size > _MOST_BYTES:
            raise ScoresError(f"{path}: is larger than {_MOST_BYTES // 1_000_000} MB")
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
    except (OSError, ValueError) as error:
        if isinstance(error, ScoresError):
            raise
        raise ScoresError(f"{short(path)}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _columns(path: Path, names: list[str]) -> dict[str, int]:
    """Return the place of each column that is used."""
    if len(names) > _MOST_COLUMNS:
        raise ScoresError(f"{path}, line 1: has {len(names):,} columns")
    plain = [name.strip().lower() for name in names]
    if missing := [name for name in NEEDED if name not in plain]:
        there = ", ".join(short(name, 30) for name in names[:10]) or "nothing"
        if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
            there += ". Columns are separated by commas, and numbers have points"
        raise ScoresError(
            f"{path}, line 1: must name the columns task, algorithm, seed, step, score; missing: {', '.join(missing)}; "
            f"there is: {there}"
        )
    if twice := [name for name in (*NEEDED, _STEP) if plain.count(name) > 1]:
        raise ScoresError(f"{path}, line 1: names {twice[0]} twice")
    return {name: plain.index(name) for name in (*NEEDED, _STEP) if name in plain}


def _add(scores: dict[_Key, dict[float, float]], columns: dict[str, int], row: list[str], where: str) -> None:
    """Note the score of a line."""
    if len(row) <= max(columns.values()):
        raise ScoresError(f"{where}: has {len(row)} columns, of which {max(columns.values()) + 1} are needed")
    algorithm, task, seed = (_name(row[columns[name]], name, where) for name in ("algorithm", "task", "seed"))
    score = _number(row[columns["score"]], "score", where)
    step = _number(row[columns[_STEP]], _STEP, where) if _STEP in columns else 0.0
    if step < 0:
        raise ScoresError(f"{where}: step must not be negative, and is {step:g}")
    run = scores.setdefault((algorithm, task, seed), {})
    if step in run:
        at = f" at step {step:g}" if _STEP in columns else ""
        raise ScoresError(
            f"{where}: {short(algorithm)} on {short(task)} with seed {short(seed)} has a second score{at}"
        )
    run[step] = score


def _name(cell: str, column: str, where: str) -> str:
    name = cell.strip()
    if not name:
        raise ScoresError(f"{where}: {column} is empty")
    if len(name) > _LONGEST or not name.isprintable():
        raise ScoresError(f"{where}: {column} must have at most {_LONGEST} printable characters: {short(name, 40)}")
    return name


def _number(cell: str, column: str, where: str) -> float:
    text = cell.strip()
    value = float(text) if len(text) <= _LONGEST and _NUMBER.fullmatch(text) else math.nan
    if not abs(value) <= _LARGEST:
        raise ScoresError(f"{where}: {column} must be a finite number up to 1e100, and is {short(text, 40) or 'empty'}")
    return value


def write_csv(path: Path | str, runs: Iterable[Run]) -> None:
    """Write runs as CSV with the columns that `read_csv` takes.

    Text that a spreadsheet would take for a formula gets an apostrophe before it.

    Raises:
        ScoresError: the file cannot be written.
    """
    try:
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("task", "algorithm", "seed", _STEP, "score"))
            for run in runs:
                names = [_plain(each) for each in (run.task, run.algorithm, run.seed)]
                for step, score in zip(run.steps.tolist(), run.scores.tolist(), strict=True):
                    rows.writerow([*names, f"{step:.17g}", repr(score)])
    except (OSError, ValueError) as error:
        raise ScoresError(f"{short(path)}: cannot be written: {getattr(error, 'strerror', None) or error}") from None


def _plain(text: str) -> str:
    """Return text that no spreadsheet calculates."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _run(key: _Key, scores: dict[float, float]) -> Run:
    algorithm, task, seed = key
    steps = sorted(scores)
    return Run(algorithm, task, seed, np.array(steps), np.array([scores[step] for step in steps]))
