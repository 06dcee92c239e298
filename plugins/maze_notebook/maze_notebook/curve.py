"""A learning curve as inline SVG, in the colour of the text around it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maze_core.cli.console.table import score
from maze_notebook.markup import safe

WIDTH, HEIGHT = 520, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 14, 12, 34
"""Room around the curve: numbers at the left, the axis of steps at the bottom."""
_POINTS = 400
"""Most points; of more, some are left out."""
_BLUE = "#2b8cbe"

Point = tuple[float, float, float]
"""Environment steps, value, and the standard deviation, 0 where it is not known."""


def curve(points: Sequence[Point], metric: str) -> str:
    """Return a curve with a band of one standard deviation; empty below two points."""
    points = [each for each in points if all(map(math.isfinite, each))]
    points = points[:: 1 + len(points) // _POINTS] + points[-1:]
    if len({x for x, _, _ in points}) < 2:
        return ""
    low, high = min(y - std for _, y, std in points), max(y + std for _, y, std in points)
    high = high if high > low else low + 1.0
    first, last = points[0][0], points[-1][0]

    def place(x: float, y: float) -> str:
        across = _LEFT + (x - first) / (last - first) * (WIDTH - _LEFT - _RIGHT)
        return f"{across:.1f},{HEIGHT - _BOTTOM - (y - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM):.1f}"

    line = " ".join(place(x, y) for x, y, _ in points)
    edges = [place(x, y + std) for x, y, std in points] + [place(x, y - std) for x, y, std in reversed(points)]
    band = (
        f'<polygon points="{" ".join(edges)}" fill="{_BLUE}" fill-opacity=".18"/>' if any(p[2] for p in points) else ""
    )
    drawn = f'{band}<polyline points="{line}" fill="none" stroke="{_BLUE}" stroke-width="2"/>'
    return _framed(drawn, metric, (score(low, high), score(high, low)), (f"{first:,.0f}", f"{last:,.0f} steps"))


def _framed(drawn: str, metric: str, values: tuple[str, str], steps: tuple[str, str]) -> str:
    bottom = HEIGHT - _BOTTOM
    axes = (
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{WIDTH - _RIGHT}" fill="none" stroke="currentColor" stroke-opacity=".4"/>'
    )
    texts = [
        (_LEFT - 6, bottom, "end", values[0]),
        (_LEFT - 6, _TOP + 8, "end", values[1]),
        (_LEFT, bottom + 16, "start", steps[0]),
        (WIDTH - _RIGHT, bottom + 16, "end", steps[1]),
        ((WIDTH + _LEFT) // 2, bottom + 28, "middle", metric),
    ]
    written = "".join(f'<text x="{x}" y="{y}" text-anchor="{at}">{safe(text)}</text>' for x, y, at, text in texts)
    style = "width:100%;max-width:520px;height:auto;font:11px sans-serif;fill:currentColor"
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" style="{style}">{axes}{drawn}{written}</svg>'
