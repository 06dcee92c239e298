"""Whether a file that Maze has made of a stranger's texts holds markup, a formula or a command of them."""

from __future__ import annotations

import csv
import re
from html.parser import HTMLParser
from pathlib import Path

TAGS = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "div", "table", "thead", "tbody", "tr", "th",
    "td", "figure", "figcaption", "svg", "path", "text", "rect", "ul", "li", "span", "pre",
}  # fmt: skip
"""What a report is made of."""
COMMANDS = {
    "begin", "end", "centering", "caption", "label", "toprule", "midrule", "bottomrule", "linewidth", "textbackslash",
    "textasciicircum", "textasciitilde", "textless", "textgreater", "textbar", "textquotedbl", "pm", "ldots",
    "textasciigrave",
}  # fmt: skip
_TEX = re.compile(r"\\([A-Za-z]+|.)", re.DOTALL)


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the tag."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def problems_of_page(file: Path) -> list[str]:
    """Return what is wrong with a report, a card or a table that Maze has written; nothing for other files."""
    if file.name == "shared":
        return _markdown((file / "card.md").read_text(encoding="utf-8"), code=r"(?m)^    .*$")
    if not file.is_file() or file.suffix not in _CHECKS:
        return []
    return _CHECKS[file.suffix](file.read_text(encoding="utf-8"))


def _html(text: str) -> list[str]:
    page = _Page(text)
    found = [f"the page has <{tag}>" for tag in sorted(page.tags - TAGS)]
    named = sorted(name for name in page.attributes if name.startswith("on") or name in ("href", "src"))
    return found + [f"the page has the attribute {name}" for name in named]


def _markdown(text: str, code: str = r"(?s)```+bash\n.*?\n```+") -> list[str]:
    outside = re.sub(code, "", text)
    found = re.search(r"(?m)(?<!\\)(?:\\\\)*[<`\[]|(?<!\\)!\[|(?<![\\:])://|^(?:#{3}|---$)", outside)
    return [f"the page has markup of others: {outside[found.start() : found.end() + 40]!r}"] if found else []


def _latex(text: str) -> list[str]:
    body = "\n".join(line for line in text.splitlines() if not line.startswith("% Tables of an experiment"))
    names = [name for name in _TEX.findall(body) if name not in COMMANDS and name not in "\\{}$&#_%"]
    found = [f"the tables have \\{name}" for name in sorted(set(names))]
    if "^^" in text or not text.isascii():
        found.append("the tables have characters that TeX reads in a way of its own")
    return found


def _csv(text: str) -> list[str]:
    rows = list(csv.reader(text.splitlines()))
    cells = [cell for row in rows[1:] for cell in row[:3] if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    return [f"a spreadsheet would calculate {cells[0]!r}"] if cells else []


_CHECKS = {".html": _html, ".md": _markdown, ".tex": _latex, ".csv": _csv}
