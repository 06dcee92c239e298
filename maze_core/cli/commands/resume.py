"""`maze resume RUN` goes on with a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_core.base.local_modules import allow_local_modules
from maze_core.cli import output
from maze_core.cli.group import lasting_imports
from maze_core.cli.options import with_algorithm_flags


@with_algorithm_flags
def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run directory.", show_default=False)],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change a value, such as steps=200000; repeatable."),
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(metavar="NAME", help="Checkpoint to resume from: last, previous or best.")
    ] = "last",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Leave out the console's output.")] = False,
) -> None:
    """Continue a run exactly where it stopped.

    \b
    Examples:
      maze resume runs/CartPole-v1/ppo/20250101-120000-s1
      maze resume runs/first --set steps=200000
      maze resume runs/first --lr 1e-4 --set steps=200000
    """
    with lasting_imports():
        from maze_core.run.saved.saved_run import resume as go_on

    allow_local_modules()
    with output.without_output(quiet):
        summary = go_on(run, set_ or [], checkpoint)
    output.finish(summary)
