"""Draws boxes in columns with arrows between them, as SVG text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

_FONT = "Inter, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
_TITLE_SIZE, _LINE_SIZE = 13, 11.5
_LINE_HEIGHT, _PADDING = 17, 11
_GAP_X, _GAP_Y, _MARGIN, _PANEL_HEAD = 64, 16, 28, 34
_MAX_CHARACTERS = 36
_COLOURS = {
    "input": ("#e8f1fb", "#4a7fb5"),
    "block": ("#f4f4f6", "#8a8d98"),
    "head": ("#e9f6ec", "#4b9460"),
    "value": ("#fdf1e2", "#c98a2e"),
}


@dataclass(eq=False)
class Box:
    """A box: a title, lines below it, and the boxes from which its arrows come. `kind` selects the colour."""

    kind: str
    title: str
    lines: list[str] = field(default_factory=list)
    sources: list[Box] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0

    @property
    def text_width(self) -> float:
        """Width of the text in pixels, with a margin for wide fonts."""
        widths = [_TITLE_SIZE * 0.68 * len(_short(self.title))]
        widths += [_LINE_SIZE * 0.61 * len(_short(line)) for line in self.lines]
        return max(90.0, *widths) + 2 * _PADDING

    @property
    def height(self) -> float:
        """Height in pixels."""
        return 2 * _PADDING + _LINE_HEIGHT * (1 + len(self.lines)) - 4

    @property
    def middle(self) -> float:
        """The y coordinate of its centre."""
        return self.y + self.height / 2


@dataclass
class Panel:
    """A titled picture of columns, left to right."""

    title: str
    columns: list[list[Box]]


def draw(title: str, subtitle: str, panels: list[Panel]) -> str:
    """Return the SVG document: a title, and the panels below each other."""
    parts: list[str] = []
    top, right = _MARGIN + 44.0, 20.0 + 9.5 * max(len(title), 0.75 * len(subtitle))
    for panel in panels:
        parts.append(_text(_MARGIN, top + 13, panel.title, 13, "#5b5f6b", "600"))
        panel_right, bottom = _arrange(panel, top + _PANEL_HEAD)
        parts += [_arrow(source, box) for column in panel.columns for box in column for source in box.sources]
        parts += [_box(box) for column in panel.columns for box in column]
        right, top = max(right, panel_right), bottom + _MARGIN
    width, height = round(right + _MARGIN), round(top)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="{_FONT}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(_MARGIN, _MARGIN + 8, title, 18, "#22252e", "700"),
        _text(_MARGIN, _MARGIN + 29, subtitle, 12.5, "#5b5f6b"),
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _arrange(panel: Panel, top: float) -> tuple[float, float]:
    """Place the boxes; return the right and bottom edges."""
    heights = [sum(box.height + _GAP_Y for box in column) - _GAP_Y for column in panel.columns]
    tallest = heights.index(max(heights))
    x = float(_MARGIN)
    for column in panel.columns:
        width = max(box.text_width for box in column)
        for box in column:
            box.x, box.width = x, width
        x += width + _GAP_X
    _stack(panel.columns[tallest], top)
    for index in [*range(tallest - 1, -1, -1), *range(tallest + 1, len(panel.columns))]:
        column = panel.columns[index]
        neighbours = panel.columns[index + 1 if index < tallest else index - 1]
        wanted = [_neighbour_middle(box, neighbours) for box in column]
        _place(column, wanted, top, top + heights[tallest])
    return x - _GAP_X, top + heights[tallest]


def _stack(column: list[Box], top: float) -> None:
    for box in column:
        box.y = top
        top += box.height + _GAP_Y


def _neighbour_middle(box: Box, neighbours: list[Box]) -> float:
    linked = [other for other in neighbours if other in box.sources or box in other.sources] or neighbours
    return sum(other.middle for other in linked) / len(linked)


def _place(column: list[Box], wanted: list[float], top: float, bottom: float) -> None:
    """Place each box as near to its wanted middle as the others and the edges allow."""
    free = top
    for box, middle in zip(column, wanted, strict=True):
        box.y = max(free, middle - box.height / 2)
        free = box.y + box.height + _GAP_Y
    drift = sum(box.middle - middle for box, middle in zip(column, wanted, strict=True)) / len(column)
    lowest = column[-1].y + column[-1].height
    shift = min(max(-drift, top - column[0].y), bottom - lowest)
    for box in column:
        box.y += shift


def _box(box: Box) -> str:
    fill, stroke = _COLOURS[box.kind]
    text_x, y = box.x + _PADDING, box.y + _PADDING + 10
    parts = [
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="7" '
        f'fill="{fill}" stroke="{stroke}" stroke-width="1.2"/>',
        _text(text_x, y, _short(box.title), _TITLE_SIZE, "#22252e", "600"),
    ]
    for number, line in enumerate(box.lines, 1):
        parts.append(_text(text_x, y + number * _LINE_HEIGHT, _short(line), _LINE_SIZE, "#484c57"))
    return "\n".join(parts)


def _arrow(source: Box, target: Box) -> str:
    x0, y0, x1, y1 = source.x + source.width, source.middle, target.x - 6, target.middle
    bend = (x1 - x0) / 2
    curve = f"M{x0:.1f},{y0:.1f} C{x0 + bend:.1f},{y0:.1f} {x1 - bend:.1f},{y1:.1f} {x1:.1f},{y1:.1f}"
    tip = f"M{x1 + 5:.1f},{y1:.1f} l-7,-3.6 v7.2 z"
    return f'<path d="{curve}" fill="none" stroke="#9aa0ad" stroke-width="1.3"/><path d="{tip}" fill="#9aa0ad"/>'


def _text(x: float, y: float, text: str, size: float, colour: str, weight: str = "400") -> str:
    style = f'font-size="{size}" font-weight="{weight}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def _short(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"
