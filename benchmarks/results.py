"""Results on disk and on the screen: one JSON file into which rows are merged, and Markdown made from it: a page, or
the section of one."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent.parent / "docs" / "benchmarks"

SHARED = {
    "recordings": ("offline", "sequence", "cloning", "demonstrations", "imitation"),
    "machines": ("wide", "runners", "scale", "kills"),
    "comparisons": ("pong", "an_hour", "rllib"),
    "tasks": ("constraints", "curricula", "cutting"),
    "exams": ("bsuite", "popgym"),
    "settings": ("defaults", "parameters"),
}
"""Pages of several results, each of which is a section between two comments with its name."""

PIPE_WIDTH = 160

Cells = list[list[str]]


def load(name: str) -> dict[str, Any]:
    """All rows measured so far, by row name."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def merge(name: str, row: str, result: dict[str, Any]) -> dict[str, Any]:
    """Replace one row of the file and return all."""
    rows = {**load(name), row: {**result, "where": machine(), "when": now()}}
    FOLDER.mkdir(parents=True, exist_ok=True)
    temporary = FOLDER / f".{name}.json.tmp"
    temporary.write_text(json.dumps(rows, indent=1) + "\n")
    temporary.replace(FOLDER / f"{name}.json")
    return rows


def missing(result: dict[str, Any], algorithms: Iterable[str], seeds: int) -> Iterator[tuple[dict[str, Any], str, int]]:
    """Yield what has no run yet, seed by seed: the runs of an algorithm, its name, and the seed that they lack."""
    for seed in range(1, seeds + 1):
        for algorithm in algorithms:
            runs = result["runs"].setdefault(algorithm, {})
            if str(seed) not in runs:
                yield runs, algorithm, seed


def now() -> str:
    """The time of a measurement."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine() -> dict[str, Any]:
    """What the figures depend on beside the code."""
    libraries = {name: version(name) for name in ("torch", "gymnasium", "numpy")}
    return {"processor": _processor(), "cores": os.cpu_count(), "python": platform.python_version(), **libraries}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def show(title: str, headers: list[str], cells: Cells) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    for number, header in enumerate(headers):
        table.add_column(header, justify="left" if number == 0 else "right")
    for row in cells:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    console.print(table)


def write_page(
    name: str, introduction: str, headers: list[str], cells: Cells, rows: dict[str, Any], sections: str = ""
) -> None:
    """Write the Markdown page: introduction, table, further sections, and where each row was measured."""
    parts = [introduction, table(headers, cells), sections, "## Where and when", where_and_when(rows)]
    write(name, [part for part in parts if part])


def write(name: str, parts: list[str]) -> None:
    """Write a Markdown page of these parts, or the section of a page."""
    text = "\n\n".join(part.strip() for part in parts)
    page = next((page for page, names in SHARED.items() if name in names), name)
    file = FOLDER / f"{page}.md"
    if page != name:
        section = f"<!-- {name}: begin -->\n\n{_as_section(text)}\n\n<!-- {name}: end -->"
        between = re.compile(rf"<!-- {name}: begin -->.*<!-- {name}: end -->", re.DOTALL)
        text, found = between.subn(lambda _: section, file.read_text(encoding="utf-8").strip())
        if not found:
            raise ValueError(f"{file} has no comments <!-- {name}: begin --> and <!-- {name}: end -->")
    file.write_text(text + "\n", encoding="utf-8")


def _as_section(text: str) -> str:
    """A page as a section: its headings one level down, the last one with the page's title, as it is on all pages."""
    title = text.partition("\n")[0].removeprefix("# ")
    text = re.sub(r"^(#+ )", r"#\1", text, flags=re.MULTILINE)
    return text.replace("### Where and when\n", f"### Where and when: {title}\n")


def where_and_when(rows: dict[str, Any]) -> str:
    """On which machines rows were measured, with the days: a line for all rows that a machine has of a day."""
    lines: dict[str, list[str]] = {}
    for row, result in rows.items():
        facts = ", ".join(f"{name} {value}" for name, value in result["where"].items())
        lines.setdefault(f"{result['when'][:10]}, {facts}", []).append(row)
    return "\n".join(f"- {measured}: {'; '.join(names)}" for measured, names in lines.items())


def folded(title: str, text: str) -> str:
    """A part of a page that is shown when its title is clicked."""
    return f'<details markdown="1">\n<summary>{title}</summary>\n\n{text}\n\n</details>'


def table(headers: list[str], cells: Cells) -> str:
    """A Markdown table."""
    return "\n".join([_line(headers), _line(["---", *["---:"] * (len(headers) - 1)]), *map(_line, cells)])


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
