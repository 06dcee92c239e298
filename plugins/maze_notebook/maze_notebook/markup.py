"""The console's lines as HTML, in colours that can be read on light and on dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from maze_core.base.terminal_text import printable
from maze_core.cli.console.table import Line

_STYLES = {
    "bold": "font-weight:bold",
    "dim": "opacity:.65",
    "green": "color:#1a9850",
    "cyan": "color:#2b8cbe",
    "magenta": "color:#c2549d",
    "red": "color:#d7301f",
    "yellow": "color:#b8860b",
}
"""Words of rich's styles in CSS."""
_BLOCK = "margin:0;padding:0;white-space:pre;overflow-x:auto;line-height:1.35;background:none;border:0"


def safe(text: object) -> str:
    """Return a text of anybody as HTML of one line."""
    return escape(printable(text))


def plain(lines: Sequence[Line]) -> str:
    """Return lines without styles."""
    return "\n".join("".join(printable(text) for text, _ in line).rstrip() for line in lines)


def block(lines: Sequence[Line]) -> str:
    """Return lines as a block of preformatted text that scrolls where the page is narrow."""
    written = "\n".join("".join(_piece(text, style) for text, style in line) for line in lines)
    return f'<pre style="{_BLOCK}">{written}</pre>'


def _piece(text: str, style: str) -> str:
    css = ";".join(_STYLES[word] for word in style.split() if word in _STYLES)
    return f'<span style="{css}">{safe(text)}</span>' if css else safe(text)


def bar(fraction: float | None, text: str) -> str:
    """Return a progress bar with a text beside it; without a fraction the bar moves."""
    value = "" if fraction is None else f' value="{fraction:.4f}"'
    share = "" if fraction is None else f"{fraction:.0%} "
    drawn = f'<progress max="1"{value} style="width:14em;vertical-align:middle"></progress>'
    return f'<div style="font-family:monospace">{drawn} {share}{safe(text)}</div>'
