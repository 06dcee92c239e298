"""`maze fork RUN` begins a new run where another one was."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_core.base.local_modules import allow_local_modules
from maze_core.cli import output
from maze_core.cli.group import lasting_imports
from maze_core.cli.options import with_algorithm_flags


@with_algorithm_flags
def fork(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run directory to begin from.", show_default=False)],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change a value, such as algorithm.lr=1e-4; repeatable."),
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(metavar="NAME", help="Checkpoint to begin from: last, previous or best.")
    ] = "last",
    run_dir: Annotated[
        Path | None,
        typer.Option("--run-dir", "--dir", help="The new run's folder [default: beside RUN, named after it]."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Leave out the console's output.")] = False,
) -> None:
    """Begin a new run with the whole state of another one.

    It is trained to its end. Parameters, optimizers, replay, statistics, environments and random numbers go on as they
    were in RUN, which stays as it is. Without a change the new run ends bit for bit as RUN does.

    \b
    Examples:
      maze fork runs/first --lr 1e-4
      maze fork runs/first --checkpoint best --set steps=200000
      maze fork runs/first --entropy-coef 0 --run-dir runs/second
    """
    with lasting_imports():
        from maze_fork.branching import fork as go_on

    allow_local_modules()
    with output.without_output(quiet):
        summary = go_on(run, set_ or [], checkpoint, run_dir)
    output.finish(summary)
