"""`maze eval RUN`: evaluate a saved policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_core.cli import output
from maze_core.local_modules import allow_local_modules


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run directory.", show_default=False)],
    episodes: Annotated[
        int | None, typer.Option("--episodes", "-n", min=1, help="Number of episodes; default: as configured.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the episodes; default: drawn.")] = None,
    stochastic: Annotated[
        bool | None,
        typer.Option("--stochastic/--deterministic", help="Sample actions; default: as configured."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="best, last or previous; default: best, or last if there is no best."),
    ] = None,
    video: Annotated[Path | None, typer.Option(metavar="DIR", help="Film the first episode into this folder.")] = None,
    runner: Annotated[
        str | None, typer.Option(metavar="NAME", help="Runner of the environments; default: as in training.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change a value, such as env.kwargs.size=5; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Evaluate a run's policy.

    \b
    Examples:
      maze eval runs/first
      maze eval runs/first --episodes 100 --seed 7 --json
    """
    from maze_core.training.saved_evaluation import evaluate_saved

    allow_local_modules()
    deterministic = None if stochastic is None else not stochastic
    found = evaluate_saved(run, episodes, seed, deterministic, checkpoint, video, runner=runner, overrides=set_ or ())
    if as_json:
        facts = {"checkpoint": found.checkpoint, "epoch": found.epoch, "seed": found.seed}
        output.print_json({**found.metrics, **facts, **({"video": str(video)} if video is not None else {})})
        return
    rows = [(name.removeprefix("eval/"), f"{value:,.6g}") for name, value in found.metrics.items()]
    output.print_table(("statistic", "value"), rows)
    typer.echo(f"checkpoint {found.checkpoint}, after epoch {found.epoch}; seed {found.seed}")
    for path in found.videos:
        output.say(f"filmed {path}")
