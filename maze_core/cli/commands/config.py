"""`maze config`: the configuration of a run, saved or about to be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_core.cli import output

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Show configurations.")


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
    from maze_core.plugins.config.experiments import experiment as experiment_file
    from maze_core.plugins.config.plain_yaml import read_yaml
    from maze_core.run.saved.found_run import no_run, run_at

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
