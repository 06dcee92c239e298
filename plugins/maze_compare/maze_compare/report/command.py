"""`maze report`: an experiment as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_compare.aggregate_command import (
    ALGORITHM,
    BY,
    CSV,
    DRAWS,
    ENV,
    METRIC,
    MINIMIZE,
    NORMALIZE,
    RESAMPLES,
    TAKE,
    experiment_of,
)
from maze_core.cli import output

_SUFFIXES = {"html": ".html", "markdown": ".md", "latex": ".tex"}


def report(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FOLDER…", help="Sweeps, runs, or folders that contain runs.", show_default=False),
    ] = None,
    csv: Annotated[list[Path] | None, CSV] = None,
    normalize: Annotated[list[str] | None, NORMALIZE] = None,
    format_: Annotated[str, typer.Option("--format", metavar="FORMAT", help="html, markdown or latex.")] = "html",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="The file; default: report.html, .md or .tex.")
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="The title.")] = "",
    metric: Annotated[str | None, METRIC] = None,
    take: Annotated[str, TAKE] = "last",
    minimize: Annotated[bool, MINIMIZE] = False,
    by: Annotated[list[str] | None, BY] = None,
    env: Annotated[str | None, ENV] = None,
    algorithm: Annotated[str | None, ALGORITHM] = None,
    resamples: Annotated[int, DRAWS] = RESAMPLES,
) -> None:
    """Write one page on an experiment: the question, the answer, results with intervals, curves, design, commands.

    The page needs no network and runs no script. Markdown is for a pull request; LaTeX has the tables of a paper.

    \b
    Examples:
      maze report both --normalize scores.yaml
      maze report runs/CartPole-v1 --format markdown --out result.md
      maze report both --csv sb3.csv --normalize range --format latex
    """
    from maze_compare.command import check, matching
    from maze_compare.experiment import findings
    from maze_compare.report.contents import contents
    from maze_compare.report.html_page import html_page
    from maze_compare.report.text_pages import latex_page, markdown_page
    from maze_core import ConfigError
    from maze_core.base.files import write_bytes

    check("--format", format_, tuple(_SUFFIXES))
    check("--take", take, ("last", "best"))
    if not folders and not csv:
        raise ConfigError("name a folder with runs, or --csv FILE", hint="Next: maze report runs/CartPole-v1")
    records = matching(folders, env, algorithm, None) if folders else []
    of = experiment_of(records, csv, metric, take, minimize, by, normalize, env, algorithm)
    typed = [("--csv", [str(each) for each in csv or ()]), ("--normalize", normalize or []), ("--by", by or [])]
    typed += [
        (name, [value]) for name, value in (("--metric", metric), ("--env", env), ("--algorithm", algorithm)) if value
    ]
    typed += [("--take", [take])] if take != "last" else []
    options = [part for name, values in typed for value in values for part in (name, value)]
    options += ["--minimize"] if minimize else []
    page = contents(of, findings(of, resamples=resamples), folders or [], title, options)
    text = {"html": html_page, "markdown": markdown_page, "latex": latex_page}[format_](page)
    file = out or Path(f"report{_SUFFIXES[format_]}")
    try:
        write_bytes(file, text.encode())
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}", "--out") from None
    for line in of.left_out:
        output.warn(line)
    output.say(f"wrote {file}, {len(text.encode()):,} bytes")
