"""`maze envs`: find environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from maze_core.base.local_modules import allow_local_modules
from maze_core.cli import output

if TYPE_CHECKING:
    from maze_devkit.environment_list import EnvList, Listed

_HOW_TO_IMPORT = "`maze envs list module:` imports a module that registers some"

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Find and inspect environments.")


@app.command(name="list")
def list_(
    text: Annotated[
        str,
        typer.Argument(metavar="[TEXT]", help="Part of an id or an env source; module:TEXT.", show_default=False),
    ] = "",
    env_source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those of this env source plugin.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List environments whose id or env source contains TEXT, with their presets, and the spaces if they are few.

    Those of gymnasium's registry, of known installed packages, and of env sources. `module:TEXT` imports a module that
    registers environments. An environment that cannot be built is listed with the reason.

    \b
    Examples:
      maze envs list
      maze envs list lunar
      maze envs list minigrid:Empty
      maze envs list --env-source jax
      maze envs list my_envs: --json
    """
    from dataclasses import asdict

    from maze_devkit.environment_list import list_environments

    allow_local_modules()
    found = list_environments(text, env_source)
    if as_json:
        output.print_json([asdict(each) for each in found.environments])
    else:
        _print_list(found, text)
    for problem in found.problems:
        output.warn(problem)
    if not found.environments:
        raise typer.Exit(1)


def _print_list(found: EnvList, text: str) -> None:
    from maze_core.base.terminal_text import shown
    from maze_core.envs.sources.failures import missing_source
    from maze_devkit.environment_list import BUILT

    if not found.environments:
        module, imported, _ = text.rpartition(":")
        about = f"{shown(module)} was imported, and registers none that fits"
        output.warn(f"no environment fits; {missing_source(text) or (about if imported else _HOW_TO_IMPORT)}")
        return
    columns = ["env source", "environment", "presets"]
    rows = [[each.env_source, each.id, _named(each)] for each in found.environments]
    few = len(rows) <= BUILT
    if few:
        columns += ["observations", "actions"]
        for row, each in zip(rows, found.environments, strict=True):
            # A problem and its hint are two lines, and a cell is one.
            row += [each.observation_space or ". ".join(each.problem.splitlines()), each.action_space]
    output.print_table(columns, rows)
    if not few:
        output.warn(f"{len(rows)} environments; a list of at most {BUILT} shows their spaces: maze envs list TEXT")


def _named(listed: Listed) -> str:
    """Return the algorithms with a preset that applies by itself, and other presets as `algorithm (preset)`."""
    from maze_core.plugins.config.presets import preset_of

    own = preset_of(listed.id)
    return ", ".join(
        algorithm if name == own else f"{algorithm} ({name})"
        for algorithm, names in listed.presets.items()
        for name in names
    )
