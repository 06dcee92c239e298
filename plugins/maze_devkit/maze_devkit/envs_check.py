"""`maze envs check`: looks at an environment before training on it."""

from __future__ import annotations

from typing import Annotated

import typer

from maze_core.base.local_modules import allow_local_modules
from maze_core.cli import output


def check(
    env_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The environment id.", show_default=False)
    ] = None,
    env_source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Env source plugin; default: the one that has ID.")
    ] = None,
    wrappers: Annotated[
        str | None, typer.Option(metavar="A,B", help="Environment wrappers; the first is innermost.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Such as env.kwargs.size=5; wrappers.0.x=1."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 also for warnings.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Build an environment as a run would, print its spaces, and say what training would refuse and what helps.

    It is checked against the gymnasium interface, and stepped with its wrappers, or in its vectorised form.
    Problems are what a run refuses (exit code 1), warnings what is suspicious.

    \b
    Examples:
      maze envs check CartPole-v1
      maze envs check CartPole-v1 --set env.vectorization=native
      maze envs check minigrid:MiniGrid-Empty-5x5-v0 \\
        --wrappers drop --set wrappers.0.keys=[mission]
      maze envs check my_package:MyEnv-v0 --set env.kwargs.size=5
      maze envs check --env-source my_source --set env.size=5
    """
    from dataclasses import asdict

    from maze_core.cli.options import env_layer
    from maze_core.plugins.config.assembly import env_config
    from maze_devkit.environment_report import examine_environment

    allow_local_modules()
    names = [name.strip() for name in (wrappers or "").split(",") if name.strip()]
    found = examine_environment(*env_config(env_layer(env_source, env_id), names, set_ or ()))
    report = {key.replace("_", " "): value for key, value in asdict(found).items()}
    if as_json:
        output.print_json(report)
    else:
        for key, value in report.items():
            if key in ("actors", "stepped", "parameters") and not value:
                continue
            lines = [value] if isinstance(value, str) else [line for each in value for line in each.splitlines()]
            output.say_fact(key, lines or ["none"], 20)
    if report["problems"] or (strict and report["warnings"]):
        raise typer.Exit(1)
