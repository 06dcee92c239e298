"""`maze config`: the configuration of a run, saved or about to be, and its schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
    """
    from maze_core.config.plain_yaml import read_yaml
    from maze_core.config.sealed import read_sealed
    from maze_core.plugins.configuration import assemble, dump, load_run_config

    if run is not None:  # as plain data: showing a configuration runs no code of it
        read = read_sealed if run.is_dir() else read_yaml
        whole = load_run_config(read(run / "config.yaml" if run.is_dir() else run), set_ or ())
    else:
        whole = assemble(algorithm, env, preset, config or (), set_ or ())
    if as_json:
        output.print_json(whole.model_dump(mode="json"))
    else:
        typer.echo(dump(whole), nl=False)


@app.command()
def schema(
    algorithm: Annotated[str, typer.Argument(metavar="ALGORITHM", help="The algorithm.", show_default=False)],
    env_source: Annotated[str, typer.Option(metavar="NAME", help="Env source plugin.")] = "gymnasium",
    model: Annotated[str, typer.Option(metavar="NAME", help="Model plugin.")] = "mlp",
    runner: Annotated[str, typer.Option(metavar="NAME", help="Runner plugin.")] = "dev",
) -> None:
    """Print the JSON Schema of a run's configuration with the parameters of the named plugins.

    \b
    Examples:
      maze config schema ppo > ppo.schema.json
    """
    output.print_json(run_schema({"algorithm": algorithm, "env": env_source, "model": model, "runner": runner}))


def run_schema(names: dict[str, str]) -> dict[str, Any]:
    """Return the JSON Schema of a RunConfig with the named plugins as its parts."""
    from pydantic import create_model

    from maze_core.config.run import RunConfig
    from maze_core.plugins import discovery

    parts: dict[str, Any] = {}
    for kind, name in names.items():
        field = RunConfig.model_fields[kind]
        parts[kind] = (discovery.load(kind, name).Config, field)
    # Wrappers and callbacks vary; each is checked by its own plugin.
    parts["wrappers"] = (list[str | dict[str, Any]], RunConfig.model_fields["wrappers"])
    parts["callbacks"] = (dict[str, dict[str, Any] | None], RunConfig.model_fields["callbacks"])
    return create_model("RunConfig", __base__=RunConfig, **parts).model_json_schema()
