"""`maze runs aggregate`: results over tasks and seeds, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maze_core.cli import output

if TYPE_CHECKING:
    from maze_statistics import Run

    from maze_compare.experiment import Experiment
    from maze_compare.records import RunRecord

RESAMPLES = 5_000
NORMALIZE = typer.Option(
    "--normalize",
    metavar="NAME|FILE",
    help="Reference scores: atari, bsuite, minigrid, mujoco, popgym, a file .yaml; range, none. Repeatable.",
)
CSV = typer.Option("--csv", metavar="FILE", help="Runs of others: task, algorithm, seed, step, score. Repeatable.")
BY = typer.Option(
    "--by",
    metavar="PATH",
    help="What tells algorithms apart, such as algorithm.lr; default: algorithm.name. Repeatable.",
)
METRIC = typer.Option(
    "--metric", metavar="NAME", help="A metric of metrics.jsonl; default: the runs' score, else the return."
)
TAKE = typer.Option("--take", metavar="last|best", help="Which of its values counts.")
MINIMIZE = typer.Option("--minimize", help="Lower values of the metric are better.")
ENV = typer.Option("--env", metavar="ID", help="Only runs on this environment.")
ALGORITHM = typer.Option("--algorithm", metavar="NAME", help="Only runs of this algorithm.")
DRAWS = typer.Option("--resamples", metavar="N", min=100, max=100_000, help="Draws of the bootstrap.")


def aggregate(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN…", help="Runs, or folders that contain runs; default: runs, unless --csv.", show_default=False
        ),
    ] = None,
    csv: Annotated[list[Path] | None, CSV] = None,
    normalize: Annotated[list[str] | None, NORMALIZE] = None,
    metric: Annotated[str | None, METRIC] = None,
    take: Annotated[str, TAKE] = "last",
    minimize: Annotated[bool, MINIMIZE] = False,
    by: Annotated[list[str] | None, BY] = None,
    env: Annotated[str | None, ENV] = None,
    algorithm: Annotated[str | None, ALGORITHM] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", metavar="PATH=VALUE", help="Only runs with this value, such as algorithm.lr=1e-3; repeatable."
        ),
    ] = None,
    resamples: Annotated[int, DRAWS] = RESAMPLES,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Also draw them: .png, .svg or .pdf.")
    ] = None,
    draw: Annotated[
        list[str] | None,
        typer.Option("--draw", metavar="PART", help="intervals, profiles or curves; default: all. Repeatable."),
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Also write the runs, not normalised, as CSV.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say which algorithm is better over several tasks and seeds: interquartile means with intervals, and more.

    Runs of each algorithm on each task are taken together; unfinished ones are left out. Intervals are those of a
    bootstrap within each task (Agarwal et al. 2021).

    \b
    Examples:
      maze runs aggregate runs/atari --normalize atari
      maze runs aggregate runs/mine --normalize scores.yaml --picture all.svg
      maze runs aggregate runs/mine --csv sb3.csv --normalize range --json
      maze runs aggregate runs/lr --by algorithm.lr --draw profiles \\
        --picture lr.png
    """
    from maze_statistics.csv_files import write_csv

    from maze_compare.aggregate_output import facts, print_findings
    from maze_compare.command import check, matching
    from maze_compare.experiment import findings

    check("--take", take, ("last", "best"))
    parts = _parts(draw, picture)
    records = [] if csv and not runs else matching(runs or [Path("runs")], env, algorithm, where)
    of = experiment_of(records, csv, metric, take, minimize, by, normalize, env, algorithm)
    found = findings(of, resamples=resamples)
    for line in of.left_out:
        output.warn(line)
    if export is not None:
        from maze_compare.experiment import as_config_error

        with as_config_error("--export"):
            write_csv(export, [each.run for each in of.entries])
    if as_json:
        output.print_json(facts(of, found))
    else:
        print_findings(of, found)
    if picture is not None:
        from maze_compare.aggregate_picture import draw_findings

        if found.no_curves and "curves" in parts:
            output.warn(f"no curves: {found.no_curves}")
            parts.remove("curves")
        if parts:
            draw_findings(of, found, parts, picture)
            output.warn(f"{picture}: {', '.join(parts)}")


def experiment_of(
    records: list[RunRecord],
    csv: list[Path] | None,
    metric: str | None,
    take: str,
    minimize: bool,
    by: list[str] | None,
    normalize: list[str] | None,
    env: str | None,
    algorithm: str | None,
) -> Experiment:
    """Return the experiment of runs and files, by the options of a command, of which `take` is checked.

    Raises:
        ConfigError: an option, a run or a file is refused.
    """
    from maze_compare.command import score_of
    from maze_compare.experiment import experiment

    metric, lower = score_of(records, metric) if records else _metric_of_files(metric)

    def wanted(run: Run) -> bool:
        return env in (None, run.task) and algorithm in (None, run.algorithm)

    return experiment(
        records, csv or [], metric=metric, take="best" if take == "best" else "last", lower=lower or minimize,
        by=by or (), normalise=normalize or (), wanted=wanted,
    )  # fmt: skip


def _metric_of_files(metric: str | None) -> tuple[str, bool]:
    """Return the name of what files have, and that lower ones are not better; refuse a metric."""
    from maze_core import ConfigError

    if metric is not None:
        raise ConfigError("is a metric of runs; files have one score", "--metric", "Next: leave it out, or name runs")
    return "score", False


def _parts(draw: list[str] | None, picture: Path | None) -> list[str]:
    from maze_compare.aggregate_picture import PARTS
    from maze_compare.command import check
    from maze_core import ConfigError

    if draw and picture is None:
        raise ConfigError("draws nothing without --picture", "--draw", "Next: --picture FILE.svg")
    for each in draw or ():
        check("--draw", each, PARTS)
    return [part for part in PARTS if part in (draw or PARTS)]
