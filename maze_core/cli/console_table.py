"""The table of epochs: which metrics it shows, in which order and form, and which of those asked for are missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from maze_core.base.metrics import RETURN, metric_named
from maze_core.base.terminal_text import printable

if TYPE_CHECKING:
    from maze_core.run.report import EpochReport


Line = list[tuple[str, str]]
"""A line as pieces of text with their rich styles; plain output drops the styles."""

_NONE: Mapping[str, str] = {}
ROWS_BETWEEN_HEADERS = 20
GAP = 2
EVAL_WIDTH = 15
MARKER_WIDTH = 17
"""Width reserved at the end of a row for the marker of a new best."""


def score(value: float, reference: float = 0.0) -> str:
    """Format a return or length: `487.3`, `0.74`, `-12,345`, `-` for nan; with as many decimals as `reference`."""
    if not math.isfinite(value):
        return _not_finite(value)
    size = max(abs(value), abs(reference))
    if size >= 1e6:
        return _exponent(value)
    if size >= 1e3:
        return f"{value:,.0f}"
    return _fixed(value, 2 if size < 10 else 1)


def loss(value: float) -> str:
    """Format a loss or a similar statistic in six characters if possible: `0.0123`, `41.23`, `1.2e-5`."""
    if not math.isfinite(value):
        return _not_finite(value)
    size = abs(value)
    if size >= 1e5 or 0 < size < 5e-4:
        return _exponent(value)
    return _fixed(value, 4 if size < 0.1 else 3 if size < 10 else 2 if size < 100 else 1 if size < 1000 else 0)


def rate(value: float) -> str:
    """Format a count per second."""
    if not math.isfinite(value):
        return _not_finite(value)
    return _fixed(value, 1) if abs(value) < 100 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Format seconds as `0:05`, `12:30` or `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _fixed(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    # A tiny negative number is zero here, not minus zero.
    return text.removeprefix("-") if float(text) == 0 else text


def _exponent(value: float) -> str:
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _not_finite(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.0f}"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table."""

    title: str
    metrics: tuple[str, ...]
    """Names of metrics; the first that an epoch has is shown."""
    write: Callable[[float], str]
    rank: int
    """On a narrow terminal, high ranks are left out."""
    width: int = 7
    style: str = ""

    def text(self, metrics: dict[str, float]) -> str:
        """Return the cell of an epoch; a missing metric is `-`."""
        value = next((metrics[name] for name in self.metrics if name in metrics), math.nan)
        return self.write(float(value)).rjust(self.width)


BEFORE = (
    Column("train", ("train/return_mean",), score, 1),
    Column("length", ("train/length_mean", "train/length_median"), score, 12, 6, "dim"),
)
AFTER = (
    Column("exp.var", ("train/explained_variance",), loss, 8),
    Column("|grad|", ("loss/grad_norm",), loss, 9, 6),
    Column("steps/s", ("time/env_steps_per_second",), rate, 2, 7, "cyan"),
    Column("upd/s", ("time/updates_per_second",), rate, 11, 6, "cyan"),
)
"""The columns of every algorithm, before and after its own; epoch, steps and evaluation return come first of all."""

RANK_OF_ASKED = 0
RANK_OF_OWN = 3
RANK_OF_OTHERS = 20
_COMMON = frozenset(name for column in (*BEFORE, *AFTER) for name in column.metrics)


def columns_for(
    metrics: set[str], room: int, own: Mapping[str, str] = _NONE, asked: Mapping[str, str] = _NONE
) -> list[Column]:
    """Return the columns of these metrics that fit into `room` characters, in the order of the table.

    `own`: the algorithm's metrics and their titles, the most important first. Other losses follow. `asked`: what the
    user asks for, which is left out last.
    """
    wanted = [_column(title, name, RANK_OF_ASKED) for name, title in asked.items()]
    left = [(name, title) for name, title in own.items() if name not in asked]
    declared = [_column(title, name, min(RANK_OF_OWN + i, 7)) for i, (name, title) in enumerate(left)]
    others = [
        _column(name.removeprefix("loss/"), name, RANK_OF_OTHERS)
        for name in sorted(metrics)
        if name.startswith("loss/") and name not in own and name not in asked and name not in _COMMON
    ]
    columns = (*BEFORE, *wanted, *declared, *AFTER, *others)
    available = [column for column in columns if metrics.intersection(column.metrics)]
    chosen = []
    for column in sorted(available, key=lambda column: column.rank):
        fits = GAP + column.width <= room
        if fits:
            room -= GAP + column.width
            chosen.append(column)
        elif column.rank != RANK_OF_ASKED:
            break
    return [column for column in available if column in chosen]


def _column(title: str, metric: str, rank: int) -> Column:
    return Column(title, (metric,), loss, rank, max(7, len(title)))


class EpochTable:
    """The epochs of a run as lines of a table; the header is repeated regularly and when columns change."""

    def __init__(
        self,
        total_env_steps: int | None,
        unicode: bool,
        own: Mapping[str, str] = _NONE,
        asked: Mapping[str, str] = _NONE,
        judged_by: str = RETURN,
    ) -> None:
        self._own, self._judged_by = own, judged_by
        judges = () if judged_by == RETURN else (judged_by, judged_by.replace("/", "/kpi/", 1))
        self._asked = {**asked, **{name: name for name in judges}}
        self._steps_width = max(7, len(f"{total_env_steps or 0:,}"))
        self._plus_minus, self._star = ("±", "★") if unicode else ("~", "*")
        self._metrics: set[str] = set()
        self._columns: list[Column] = []
        self._rows_until_header = 0

    def lines(self, epoch: EpochReport, width: int) -> list[Line]:
        """Return the epoch's row, at most `width` characters wide, below a header if one is due."""
        # A metric seen once keeps its column, so a loss that is missing in one epoch does not change the layout.
        self._metrics |= epoch.metrics.keys()
        fixed = 5 + GAP + self._steps_width + GAP + EVAL_WIDTH
        columns = columns_for(self._metrics, width - fixed - MARKER_WIDTH - GAP, self._own, self._asked)
        header = self._rows_until_header == 0 or columns != self._columns
        self._columns = columns
        self._rows_until_header = ROWS_BETWEEN_HEADERS - 1 if header else self._rows_until_header - 1
        return [*([self._header()] if header else []), self._row(epoch)]

    def left_out(self) -> list[str]:
        """Return the metrics that were asked for and had no room in the last row."""
        shown = {name for column in self._columns for name in column.metrics}
        return [name for name in self._asked if name in self._metrics and name not in shown]

    def _header(self) -> Line:
        titles = ["epoch", "steps".rjust(self._steps_width), "eval return".rjust(EVAL_WIDTH)]
        titles += [column.title.rjust(column.width) for column in self._columns]
        return [((" " * GAP).join(titles), "bold")]

    def _row(self, epoch: EpochReport) -> Line:
        cells = [
            (f"{epoch.epoch:>5}", "dim"),
            (f"{epoch.env_steps:,}".rjust(self._steps_width), ""),
            (self._evaluation(epoch.metrics), "bold green" if epoch.is_best else "bold"),
            *((column.text(epoch.metrics), column.style) for column in self._columns),
        ]
        if epoch.is_best:
            best = metric_named(epoch.metrics, self._judged_by)
            announced = f"{self._star} new best" if best is None else f"{self._star} new best {score(best)}"
            cells.append((announced, "bold green"))
        gap = (" " * GAP, "")
        return [piece for cell in cells for piece in (cell, gap)][:-1]

    def _evaluation(self, metrics: dict[str, float]) -> str:
        mean = metrics.get("eval/return_mean", math.nan)
        std = metrics.get("eval/return_std", math.nan)
        if math.isnan(mean):
            return "-".rjust(7).ljust(EVAL_WIDTH)
        return f"{score(mean):>7} {self._plus_minus} {score(std, mean):<5}"


_EPISODES = ("eval", "train")


class AskedMetrics:
    """Notices which of the names in `callbacks.console.metrics` are not recorded or not shown.

    What episodes report is known with the first mean return of its group, all else with the first epoch.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._open = list(names)
        self._known: set[str] = set()
        self._left_out: set[str] = set()

    def missing(self, metrics: Iterable[str], *, last: bool = False) -> list[str]:
        """Return a sentence for each name that these and earlier metrics should have held; each name once.

        `last`: no further metrics will come.
        """
        from maze_core.plugins.config.explain import nearest  # imports pydantic

        self._known.update(metrics)
        self._open = [name for name in self._open if name not in self._known]
        due = [name for name in self._open if (last and self._known) or self._is_due(name)]
        self._open = [name for name in self._open if name not in due]
        known = sorted(name for name in self._known if "/" in name)
        return [
            f"callbacks.console.metrics: nothing has recorded {printable(name, 80)} so far; {nearest(name, known)}"
            for name in due
        ]

    def left_out(self, names: Iterable[str], width: int) -> list[str]:
        """Return a sentence about those of the names that have no column for the first time; empty: there are none."""
        new = [name for name in names if name not in self._left_out]
        self._left_out.update(new)
        if not new:
            return []
        told = f"{width} columns have no room for {', '.join(printable(name, 80) for name in new)}"
        return [f"callbacks.console.metrics: {told}; a wider terminal, or the run's loggers, show them"]

    def _is_due(self, name: str) -> bool:
        group = name.partition("/")[0]
        return f"{group}/return_mean" in self._known if group in _EPISODES else bool(self._known)
