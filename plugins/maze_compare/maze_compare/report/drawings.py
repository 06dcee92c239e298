"""Small SVG drawings for a page: intervals, profiles and curves. Colours and text follow the page's style."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from maze_statistics import Aggregate, Band

MOST = 8
"""Most algorithms that are drawn: the page has as many colours."""
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 320, 78, 26, 10, 56
_ABOVE = 46
"""Room for the title of a vertical axis, which stands above it: beside it, the numbers of a phone would cover it."""
_CHARACTER = 12.0
"""The width of a character in the largest text, that of a phone."""
_POINTS = 60


def intervals(aggregates: Mapping[str, Aggregate], title: str) -> str:
    """Return a bar from end to end of each interval of the interquartile mean, with a line at its value."""
    shown = list(aggregates.items())[:MOST]
    low = min(each.iqm.low for _, each in shown)
    high = max(each.iqm.high for _, each in shown)
    left, row = 20 + _CHARACTER * max(len(_brief_name(name)) for name, _ in shown), 30
    height = _TOP + row * len(shown) + _BOTTOM
    scale = _Scale(*_padded(low, high), left, _WIDTH - _RIGHT)
    parts = _x_axis(scale, height - _BOTTOM, title, _TOP)
    for place, (name, each) in enumerate(shown):
        y = _TOP + row * place + row / 2
        begin, value, end = (scale.at(each_end) for each_end in (each.iqm.low, each.iqm.value, each.iqm.high))
        parts += [
            f'<text x="{left - 8:.0f}" y="{y + 4:.0f}" text-anchor="end">{escape(_brief_name(name))}</text>',
            f'<rect class="f{place}" x="{begin:.1f}" y="{y - 8:.0f}" width="{max(end - begin, 1):.1f}" height="16"/>',
            f'<path class="s{place}" d="M{value:.1f} {y - 10:.0f}v20"/>',
        ]
    return _svg(height, parts, f"Intervals of the interquartile mean of {', '.join(name for name, _ in shown)}")


def bands(found: Mapping[str, Band], x_title: str, y_title: str) -> str:
    """Return a line for each band, with its interval as an area."""
    shown = {name: _thinned(band) for name, band in list(found.items())[:MOST]}
    every = [array for band in shown.values() for array in (band.low, band.high, band.value)]
    xs = np.concatenate([band.x for band in shown.values()])
    x = _Scale(*_padded(float(xs.min()), float(xs.max()), 0.0), _LEFT, _WIDTH - _RIGHT)
    low, high = min(float(array.min()) for array in every), max(float(array.max()) for array in every)
    y = _Scale(*_padded(low, high), _HEIGHT - _BOTTOM, _ABOVE)
    parts = [*_x_axis(x, _HEIGHT - _BOTTOM, x_title, _ABOVE), *_y_axis(y, y_title)]
    for place, band in enumerate(shown.values()):
        up = [f"{x.at(at):.1f} {y.at(value):.1f}" for at, value in zip(band.x, band.high, strict=True)]
        down = [f"{x.at(at):.1f} {y.at(value):.1f}" for at, value in zip(band.x, band.low, strict=True)]
        line = [f"{x.at(at):.1f} {y.at(value):.1f}" for at, value in zip(band.x, band.value, strict=True)]
        parts.append(f'<path class="f{place}" d="M{"L".join(up + down[::-1])}z"/>')
        parts.append(f'<path class="line s{place}" d="M{"L".join(line)}"/>')
    return _svg(_HEIGHT, parts, f"{y_title} over {x_title} of {', '.join(shown)}")


def legend(names: Sequence[str]) -> str:
    """Return the names with their colours, as HTML."""
    items = [f'<li><span class="k{place}"></span>{escape(name)}</li>' for place, name in enumerate(names[:MOST])]
    more = len(names) - MOST
    return f'<ul class="legend">{"".join(items)}</ul>' + (f"<p>{more} more are not drawn.</p>" if more > 0 else "")


class _Scale:
    """A linear scale from values to places in the drawing."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low, self.high, self._begin, self._end = low, high, begin, end

    def at(self, value: float) -> float:
        """Return the place of a value."""
        return self._begin + (value - self.low) / (self.high - self.low) * (self._end - self._begin)

    def ticks(self) -> list[float]:
        """Return about five round values."""
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough)
        first = math.ceil(self.low / step)
        return [number * step for number in range(first, math.floor(self.high / step) + 1)][:12]


def _padded(low: float, high: float, share: float = 0.05) -> tuple[float, float]:
    """Return ends with some room, and never equal."""
    room = (high - low) * share
    if not high - low > 1e-9 * max(abs(low), abs(high), 1e-9):
        room = max(abs(low), 1.0) * 0.05
    return low - room, high + room


def _thinned(band: Band) -> Band:
    """Return a band with fewer points."""
    if band.x.size <= _POINTS:
        return band
    kept = np.unique(np.linspace(0, band.x.size - 1, _POINTS).round().astype(int))
    return Band(band.x[kept], band.value[kept], band.low[kept], band.high[kept])


def _x_axis(scale: _Scale, y: float, title: str, top: float) -> list[str]:
    parts = []
    for value in scale.ticks():
        at = scale.at(value)
        parts.append(f'<path class="grid" d="M{at:.1f} {top}V{y:.0f}"/>')
        parts.append(f'<text x="{at:.1f}" y="{y + 22:.0f}" text-anchor="middle">{_brief(value)}</text>')
    middle = (scale.at(scale.low) + scale.at(scale.high)) / 2
    parts.append(f'<text x="{middle:.0f}" y="{y + 48:.0f}" text-anchor="middle">{escape(title)}</text>')
    return parts


def _y_axis(scale: _Scale, title: str) -> list[str]:
    parts = []
    for value in scale.ticks():
        at = scale.at(value)
        parts.append(f'<path class="grid" d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 5:.1f}" text-anchor="end">{_brief(value)}</text>')
    return [*parts, f'<text x="4" y="20">{escape(title)}</text>']


def _svg(height: float, parts: Sequence[str], described: str) -> str:
    label = escape(described[:300], quote=True)
    return f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _brief(value: float) -> str:
    """Format a number as `40k` or `0.25`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}" if abs(value) > 1e-12 else "0"


def _brief_name(name: str) -> str:
    return name if len(name) <= 20 else name[:19] + "…"
