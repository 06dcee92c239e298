"""`maze plugins new`: writes a complete, working package of a new plugin."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class License(StrEnum):
    """The licences offered for a new package."""

    MIT = "MIT"
    BSD = "BSD-3-Clause"
    APACHE = "Apache-2.0"
    NONE = "none"


def new(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="algorithm, env, wrapper, model, runner, callback, policy, searcher, teacher or command.",
        ),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="What users will type, such as my_algo.")],
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where the package's folder is made.")] = Path(),
    license: Annotated[
        License, typer.Option(help="The licence; none: choose later.", case_sensitive=False)
    ] = License.MIT,
    off_policy: Annotated[
        bool, typer.Option("--off-policy", help="Of an algorithm: one that learns from a replay buffer.")
    ] = False,
    author: Annotated[str, typer.Option(metavar="NAME", help="Who holds the copyright.", show_default=False)] = "",
) -> None:
    """Write a new plugin's package: a working plugin to start from, with tests, README, licence and CI.

    \b
    Examples:
      maze plugins new algorithm reinforce
      maze plugins new algorithm my_dqn --off-policy
      maze plugins new callback slack --dir ~/src --license Apache-2.0 \\
        --author "Ada Lovelace"
    """
    from maze_core.base.terminal_text import argument
    from maze_devkit.scaffold.kinds import OFF_POLICY
    from maze_devkit.scaffold.names import new_names
    from maze_devkit.scaffold.package import usage, write_package

    names = new_names(kind, name, OFF_POLICY if off_policy else "")
    path = write_package(names, folder, license.value, author)
    typer.echo(f"wrote {path}: {names.kind} {names.name}, a plugin that works\n")
    steps = [
        f"cd {argument(path)}",
        'pip install -e ".[dev]"',
        f"maze plugins check {argument(name)}",
        usage(names),
        "pytest",
    ]
    typer.echo("\n".join(f"  {step}" for step in steps))
    typer.echo(f"\nThen make it yours: {names.package}/{names.name}.py")
