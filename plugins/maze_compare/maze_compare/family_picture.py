"""A picture of a family of runs: who was forked from whom and when, and which values each line had."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from maze_compare.family import families, origin_of
from maze_compare.groups import number, short
from maze_compare.records import RunRecord
from maze_core.base.plain_json import is_count, is_number
from maze_core.base.terminal_text import printable
from maze_core.plugins.config.record import ID
from maze_core.run.saved.changed_env import differing

_FONT = "Inter, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
_WIDTH, _LEFT, _RIGHT, _ROW, _PLOT, _GAP, _TOP = 1000, 130, 30, 17, 130, 46, 64
_BEST, _FAINT, _GREY = "#d55e00", "#66707d", "#aab2bd"
_MOST_ROWS, _MOST_SETTINGS = 400, 6
_FARTHEST = 1e15
"""Most steps that are drawn."""
_LEAST_RATIO = 30
"""Ratio of positive values from which on their axis is logarithmic."""
_LEFT_OUT = ("seed", "callbacks", "steps", "max_time", "algorithm.n_epochs")
"""Settings that differ between the stretches of a line, and say nothing about it."""


@dataclass(slots=True)
class Bar:
    """A run in the picture."""

    run: RunRecord
    parent: Bar | None
    began: float
    """Where it was forked, in environment steps, or in epochs where none are counted."""
    ended: float
    value: float | None
    """Its best return since then."""
    row: int = 0


def family_svg(runs: Sequence[RunRecord]) -> str | None:
    """Return the picture of runs and their forks as SVG; None if none of them is a fork of another one."""
    ids = {run.facts[ID] for run in runs}
    if not any(origin_of(run).get("id") in ids for run in runs):
        return None
    steps = any(run.count("env_steps") for run in runs)
    bars = _placed(runs, "env_steps" if steps else "epoch")
    shown = [bar for bar in bars if bar.row < _MOST_ROWS]
    best = _line_of(max(bars, key=lambda bar: -math.inf if bar.value is None else bar.value))
    rows = 1 + max(bar.row for bar in shown)
    end = max(bar.ended for bar in bars) or 1.0
    parts = [*_ancestry(shown, best, end)]
    top = _TOP + rows * _ROW + _GAP
    parts += _axis(end, top - _GAP + 6, "environment steps" if steps else "epochs")
    for path in _settings(bars):
        parts += _schedule(path, bars, best, end, top)
        top += _PLOT + _GAP
    said = "Each bar is a run from where it was forked; darker is a better return. Orange: the line of the best one."
    more = f" {len(bars) - len(shown)} more are left out." if len(shown) < len(bars) else ""
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top}" viewBox="0 0 {_WIDTH} {top}" '
        f'font-family="{_FONT}">',
        "<title>A family of runs</title>",
        f'<rect width="{_WIDTH}" height="{top}" fill="#ffffff"/>',
        _text(20, 28, f"{len(bars)} runs and who goes on from whom", 16, "#22252e", "700"),
        _text(20, 48, said + more, 12, _FAINT),
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _placed(runs: Sequence[RunRecord], counter: str) -> list[Bar]:
    """Return a bar for each run, parents first. One that goes on where its parent has ended takes its row."""
    bars: list[Bar] = []
    known: dict[Any, Bar] = {}
    heirs: set[int] = set()
    rows = 0
    for run in (member.run for member in families(runs)):
        origin = origin_of(run)
        parent = known.get(origin.get("id"))
        began = _count(origin.get(counter))
        bar = Bar(run, parent, began, max(began, _count(run.count(counter))), _own_best(run))
        if parent is not None and began >= parent.ended and id(parent) not in heirs:
            heirs.add(id(parent))
            bar.row = parent.row
        else:
            bar.row, rows = rows, rows + 1
        known.setdefault(run.facts[ID], bar)
        bars.append(bar)
    return bars


def _count(value: Any) -> float:
    """Return a counter, which may come from anyone, as a place on the axis."""
    return min(max(0.0, float(value)), _FARTHEST) if is_number(value) else 0.0


def _own_best(run: RunRecord) -> float | None:
    """Return the best return of a run since it was forked; where it had no epoch since then, the final one."""
    began = origin_of(run).get("epoch")
    own = [each for each in run.epochs if not is_count(began) or (each.get("epoch") or 0) > began]
    values = [value for each in own if is_number(value := each.get("eval/return_mean"))]
    return max(values) if values else run.value(take="last")


def _line_of(bar: Bar) -> list[Bar]:
    line = [bar]
    while (parent := line[0].parent) is not None:
        line.insert(0, parent)
    return line


def _ancestry(bars: Sequence[Bar], best: Sequence[Bar], end: float) -> Iterator[str]:
    """Yield the bars, with a curve from each parent."""
    values = [bar.value for bar in bars if bar.value is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    chosen = {id(bar) for bar in best}
    named: set[int] = set()
    for bar in bars:
        x0, x1, y = _x(bar.began, end), _x(bar.ended, end), _TOP + bar.row * _ROW
        if bar.parent is not None and bar.parent.row != bar.row:
            above = _TOP + bar.parent.row * _ROW + 5
            colour, width = (_BEST, 2) if id(bar) in chosen else (_GREY, 1)
            curve = f"M{x0 - 7:.1f},{above:.1f} C{x0 - 1:.1f},{above:.1f} {x0 - 7:.1f},{y + 5:.1f} {x0:.1f},{y + 5:.1f}"
            yield f'<path d="{curve}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        share = None if bar.value is None else 0.5 if high == low else (bar.value - low) / (high - low)
        edge = f' stroke="{_BEST}" stroke-width="2"' if id(bar) in chosen else ""
        told = f"{bar.run.path.name}: {'no return' if bar.value is None else number(bar.value)}"
        yield (
            f'<rect x="{x0:.1f}" y="{y:.1f}" width="{max(2.0, x1 - x0 - 1):.1f}" height="10" rx="2" '
            f'fill="{_shade(share)}"{edge}><title>{escape(printable(told, 120))}</title></rect>'
        )
        if bar.row not in named:
            named.add(bar.row)
            yield _text(_LEFT - 10, y + 9, printable(bar.run.path.name, 18), 10.5, _FAINT, anchor="end")


def _settings(bars: Sequence[Bar]) -> list[str]:
    """Return the paths of numbers in which forks differ from their parents, else those in which runs differ."""
    forks = [bar for bar in bars if bar.parent is not None]
    pairs = [(bar.parent.run.config, bar.run.config) for bar in forks if bar.parent is not None]
    pairs += [(bars[0].run.config, bar.run.config) for bar in bars[1:]]
    found: dict[str, None] = {}
    for before, now in pairs:
        for path, *both in differing(before, now):
            if all(map(is_number, both)) and not any(f"{path}.".startswith(f"{each}.") for each in _LEFT_OUT):
                found[path] = None
    return list(found)[:_MOST_SETTINGS]


def _schedule(path: str, bars: Sequence[Bar], best: Sequence[Bar], end: float, top: float) -> Iterator[str]:
    """Yield the chart of a setting over the steps, a line for each bar and its step from that of the parent."""
    known = [(bar, value) for bar in bars if is_number(value := _value_at(bar.run.config, path))]
    values = [value for _, value in known]
    low, high = min(values), max(values)
    log = low > 0 and high / low >= _LEAST_RATIO
    ends = (math.log10(low), math.log10(high)) if log else (low, high)
    spread = (ends[1] - ends[0]) or 1.0

    def y(value: float) -> float:
        share = ((math.log10(value) if log else value) - ends[0]) / spread
        return top + 22 + (1 - share) * (_PLOT - 34)

    title = f"{short(path)} over the steps" + (", logarithmic" if log else "")
    yield _text(_LEFT, top + 4, printable(title, 80), 12.5, "#22252e", "600")
    for value in (low, high):
        yield _line(_LEFT, y(value), _WIDTH - _RIGHT, y(value), "#e3e7ec", 1)
        yield _text(_LEFT - 10, y(value) + 4, f"{value:.4g}", 10.5, _FAINT, anchor="end")
    chosen = {id(bar) for bar in best}
    for bar, value in sorted(known, key=lambda each: id(each[0]) in chosen):  # the best line is above the others
        colour, width = (_BEST, 2.4) if id(bar) in chosen else (_GREY, 1.1)
        x0, x1 = _x(bar.began, end), _x(bar.ended, end)
        yield _line(x0, y(value), x1, y(value), colour, width)
        before = None if bar.parent is None else _value_at(bar.parent.run.config, path)
        if is_number(before) and before != value:
            yield _line(x0, y(before), x0, y(value), colour, width)
    yield from _axis(end, top + _PLOT - 2, "")


def _axis(end: float, y: float, name: str) -> Iterator[str]:
    yield _line(_LEFT, y, _WIDTH - _RIGHT, y, _GREY, 1)
    power = 10.0 ** math.floor(math.log10(end / 5))
    step = next(each * power for each in (1, 2, 5, 10) if end / (each * power) <= 6)
    for count in range(int(end / step + 1e-9) + 1):
        x = _x(count * step, end)
        yield _line(x, y, x, y + 4, _GREY, 1)
        yield _text(x, y + 16, f"{count * step:,.10g}", 10.5, _FAINT, anchor="middle")
    if name:
        yield _text(_WIDTH - _RIGHT, y + 30, name, 10.5, _FAINT, anchor="end")


def _value_at(config: Any, path: str) -> Any:
    for key in path.split("."):
        if isinstance(config, list):
            config = config[int(key)] if key.isdigit() and int(key) < len(config) else None
        else:
            config = config.get(key) if isinstance(config, dict) else None
    return config


def _shade(share: float | None) -> str:
    """Return a colour from light to dark blue; grey where there is no value."""
    if share is None:
        return "#e3e7ec"
    light, dark = (214, 230, 244), (8, 72, 135)
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in zip(light, dark, strict=True))


def _x(steps: float, end: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * steps / end


def _line(x0: float, y0: float, x1: float, y1: float, colour: str, width: float) -> str:
    place = f'x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"'
    return f'<line {place} stroke="{colour}" stroke-width="{width}" stroke-linecap="round"/>'


def _text(x: float, y: float, text: str, size: float, colour: str, weight: str = "400", anchor: str = "start") -> str:
    style = f'font-size="{size}" font-weight="{weight}" fill="{colour}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
