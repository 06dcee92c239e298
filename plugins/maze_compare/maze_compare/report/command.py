"""`maze report`: an experiment as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maze_compare.aggregate_command import BY, CSV, NORMALIZE, RESAMPLES
from maze_core.cli import output

if TYPE_CHECKING:
    from maze_statistics import Run

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
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A metric of metrics.jsonl; default: the runs' score, else the return."),
    ] = None,
    take: Annotated[str, typer.Option(metavar="last|best", help="Which of its values counts.")] = "last",
    minimize: Annotated[bool, typer.Option("--minimize", help="Lower values of the metric are better.")] = False,
    by: Annotated[list[str] | None, BY] = None,
    env: Annotated[str | None, typer.Option(metavar="ID", help="Only runs on this environment.")] = None,
    algorithm: Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of this algorithm.")] = None,
    resamples: Annotated[
        int, typer.Option(metavar="N", min=100, max=100_000, help="Draws of the bootstrap.")
    ] = RESAMPLES,
) -> None:
    """Write one page on an experiment: the question, the answer, results with intervals, curves, design, commands.

    The page needs no network and runs no script. Markdown is for a pull request; LaTeX has the tables of a paper.

    \b
    Examples:
      maze report both --normalize scores.yaml
      maze report runs/CartPole-v1 --format markdown --out result.md
      maze report both --csv sb3.csv --normalize range --format latex
    """
    from maze_compare.command import check, matching, score_of
    from maze_compare.experiment import experiment, findings
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
    metric, lower = score_of(records, metric) if records else ("score", False)

    def wanted(run: Run) -> bool:
        return env in (None, run.task) and algorithm in (None, run.algorithm)

    of = experiment(
        records, csv or [], metric=metric, take="best" if take == "best" else "last", lower=lower or minimize,
        by=by or (), normalise=normalize or (), wanted=wanted,
    )  # fmt: skip
    typed = [("--csv", [str(each) for each in csv or ()]), ("--normalize", normalize or []), ("--by", by or [])]
    options = [part for name, values in typed for value in values for part in (name, value)]
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
