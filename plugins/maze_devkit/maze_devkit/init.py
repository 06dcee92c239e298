"""`maze init`: writes a small project with an environment of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The project's name, such as my_robot.")],
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where the project's folder is made.")] = Path(),
) -> None:
    """Write a new project: an environment of your own, a heuristic, experiments, presets, tests and a Makefile.

    \b
    Examples:
      maze init my_robot
      maze init my_robot --dir ~/src
    """
    from maze_core.base.terminal_text import argument
    from maze_devkit.scaffold.project import write_project

    path = write_project(name, folder)
    typer.echo(f"wrote {path}: a project that works\n")
    steps = [f"cd {argument(path)}", "make test", "maze train --experiment quick"]
    typer.echo("\n".join(f"  {step}" for step in steps))
    files = f"{name}.py is the environment, {name}_heuristics.py a rule to beat, experiments/quick.yaml the run"
    typer.echo(f"\nThen make it yours: {files}.")
