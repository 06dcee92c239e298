"""Films of a terminal: what a command writes, at its own pace, as an animated SVG."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

_CHARACTER, _LINE, _MARGIN, _TITLE = 8.4, 19, 14, 30
_QUIET = 0.04
"""Seconds without output after which a screen is complete."""
_PAUSE = 4.0
"""Seconds for which the last screen stays."""
_CONSOLE = Console()
_FONT = 'Menlo, Consolas, "DejaVu Sans Mono", monospace'

_BUTTONS = ("#ff5f57", "#febc2e", "#28c840")

Screens = list[tuple[float, list[str]]]
"""Seconds since the start, and the lines of a terminal with their colours."""


def record(folder: Path, command: str, size: tuple[int, int], settled: Callable[[str], str], every: float) -> Screens:
    """Return the screens of a terminal of this size, lines and columns, while a command runs.

    `settled`: what stands on a terminal after all that was written. `every`: least seconds between two screens.
    """
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, size)
    settings = {**os.environ, "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
    began, written = time.monotonic(), b""
    found: Screens = []
    with subprocess.Popen(command.split(), cwd=folder, env=settings, stdin=theirs, stdout=theirs, stderr=theirs):  # noqa: S603
        os.close(theirs)
        os.set_blocking(ours, False)
        with contextlib.suppress(OSError):  # the end
            while True:
                with contextlib.suppress(BlockingIOError):
                    if not (part := os.read(ours, 65_536)):
                        break
                    written += part
                    continue
                now = time.monotonic() - began
                if written and (not found or now - found[-1][0] >= every):
                    found.append((now, settled(written.decode(errors="ignore")).split("\n")))
                time.sleep(_QUIET)
    os.close(ours)
    return [*found, (time.monotonic() - began, settled(written.decode()).split("\n"))]


def draw(command: str, screens: Screens, size: tuple[int, int], title: str) -> str:
    """Return a film: the command, and below it the last lines of each screen; it begins anew after a pause."""
    lines, columns = size
    whole = screens[-1][0] + _PAUSE
    shown = [[f"\x1b[1m$ {command}\x1b[0m", *screen][-lines:] for _, screen in screens]
    starts = [0.0, *(at for at, _ in screens[1:]), whole]
    width, height = columns * _CHARACTER + 2 * _MARGIN, lines * _LINE + _TITLE + _MARGIN
    parts, styles = [], []
    for row in range(lines):
        for first, last, text in _stretches([screen[row] if row < len(screen) else "" for screen in shown]):
            drawn = _line(text, _TITLE + _LINE * (row + 1) - 5)
            if not drawn:
                continue
            begin, end = (100 * starts[each] / whole for each in (first, last + 1))
            number, stays = len(styles), last + 1 == len(shown)
            styles.append(_visibility(number, begin, end, stays=stays))
            parts.append(f'<g class="l l{number}{"" if stays else " o"}">{drawn}</g>')
    style = (
        f"text{{font:14px {_FONT};white-space:pre}}.l{{animation:{whole:.1f}s step-end infinite}}.o{{opacity:0}}"
        "@media (prefers-reduced-motion:reduce){.l{animation:none!important}}"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">',
            f"<title>{escape(title)}</title><style>{style}{''.join(styles)}</style>",
            f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#0c0c0c"/>',
            *(f'<circle cx="{18 + 20 * k}" cy="16" r="6" fill="{colour}"/>' for k, colour in enumerate(_BUTTONS)),
            *parts,
            "</svg>\n",
        ]
    )


def _stretches(texts: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the first and the last place of each stretch of equal texts."""
    first = 0
    for place in range(1, len(texts) + 1):
        if place == len(texts) or texts[place] != texts[first]:
            yield first, place - 1, texts[first]
            first = place


def _visibility(number: int, begin: float, end: float, *, stays: bool) -> str:
    """Return the style of a line that is seen from `begin` to `end`, in percent of the film."""
    hidden = "0%{opacity:0}" if begin > 0 else ""
    gone = "" if stays else f"{end:.2f}%{{opacity:0}}"
    return f"@keyframes k{number}{{{hidden}{begin:.2f}%{{opacity:1}}{gone}}}.l{number}{{animation-name:k{number}}}"


def _line(text: str, y: float) -> str:
    """Return the pieces of a line, each in its colour; empty for a line without characters."""
    parts = []
    line = Text.from_ansi(text)
    for start, piece, style in _pieces(line):
        if not piece.strip():
            continue
        lead = len(piece) - len(piece.lstrip())
        piece, start = piece.strip(), start + lead
        look = f' fill="{style[0]}"' + (' font-weight="bold"' if style[1] else "")
        x, length = _MARGIN + _CHARACTER * start, _CHARACTER * len(piece)
        parts.append(f'<text x="{x:.1f}" y="{y:g}" textLength="{length:.1f}"{look}>{escape(piece)}</text>')
    return "".join(parts)


def _pieces(line: Text) -> Iterator[tuple[int, str, tuple[str, bool]]]:
    """Yield stretches of equal look: where they begin, their text, and colour and weight."""
    plain, first = line.plain, 0
    looks = [_look(line, place) for place in range(len(plain))]
    for place in range(1, len(plain) + 1):
        if place == len(plain) or looks[place] != looks[first]:
            yield first, plain[first:place], looks[first]
            first = place


def _look(line: Text, place: int) -> tuple[str, bool]:
    """Return colour and weight of a character."""
    style = line.get_style_at_offset(_CONSOLE, place)
    colour = style.color.get_truecolor(MONOKAI) if style.color is not None else MONOKAI.foreground_color
    red, green, blue = (int(each * 0.6) for each in colour) if style.dim else colour
    return f"#{red:02x}{green:02x}{blue:02x}", bool(style.bold)
