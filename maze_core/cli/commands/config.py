"""`maze config`: the configuration of a run, saved or about to be, and its schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_core.cli import output

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Show configurations and their schema.")


@app.command()
def show(
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A run directory or a YAML file.", show_default=False)
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option(metavar="NAME", help="Assemble a configuration for this algorithm.")
    ] = None,
    env: Annotated[str | None, typer.Option(metavar="ID", help="Environment id.")] = None,
    experiment: Annotated[str | None, typer.Option(metavar="NAME", help="An experiment, as of maze train.")] = None,
    config: Annotated[list[Path] | None, typer.Option("--config", "-c", metavar="FILE", help="YAML file.")] = None,
    preset: Annotated[str, typer.Option(metavar="NAME", help="Preset: auto, none or a name.")] = "auto",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Set any value; repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print a whole configuration as YAML: a run's, or what `maze train` would use.

    \b
    Examples:
      maze config show runs/first
      maze config show --algorithm ppo --env CartPole-v1 --set algorithm.lr=1e-3
      maze config show --experiment quick
    """
    from maze_core.plugins.config.assembly import assemble, dump, load_run_config
    from maze_core.plugins.config.checksummed_yaml import read_checksummed
    from maze_core.plugins.config.plain_yaml import read_yaml
    from maze_core.plugins.config.preset_paths import experiment as experiment_file
    from maze_core.run.saved.addresses import run_at
    from maze_core.run.saved.run_dir import no_run

    if run is not None:  # as plain data: showing a configuration runs no code of it
        run = run_at(run)
        if not run.exists():
            raise no_run(run)
        read = read_checksummed if run.is_dir() else read_yaml
        folder = run if run.is_dir() else None
        whole = load_run_config(read(run / "config.yaml" if folder else run), set_ or (), run_dir=folder)
    else:
        files = [] if experiment is None else [experiment_file(experiment)]
        whole = assemble(algorithm, env, preset, [*files, *(config or ())], set_ or ())
    if as_json:
        output.print_json(whole.model_dump(mode="json"))
    else:
        typer.echo(dump(whole), nl=False)


@app.command()
def schema(
    algorithm: Annotated[
        str | None, typer.Argument(metavar="[ALGORITHM]", help="The only algorithm.", show_default=False)
    ] = None,
    env_source: Annotated[str | None, typer.Option(metavar="NAME", help="The only env source plugin.")] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The only model plugin.")] = None,
    runner: Annotated[str | None, typer.Option(metavar="NAME", help="The only runner plugin.")] = None,
) -> None:
    """Print the JSON Schema of configuration files, with the parameters of all installed plugins.

    \b
    Examples:
      maze config schema > maze.schema.json
      maze config schema ppo > ppo.schema.json
    """
    from maze_core.plugins.config.schema import file_schema

    given = {"algorithm": algorithm, "env": env_source, "model": model, "runner": runner}
    output.print_json(file_schema({kind: name for kind, name in given.items() if name is not None}))
