"""`maze train ALGORITHM`: one subcommand per installed algorithm, with flags generated from its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from maze_core.base.local_modules import allow_local_modules
from maze_core.base.terminal_text import argument, printable
from maze_core.cli import output
from maze_core.cli.algorithm_options import COMMON, command_of, common_parameters, own_parameter
from maze_core.cli.group import lasting_imports
from maze_core.cli.options import callbacks_named, placed

_NAMING = ("--algo", "--algorithm", "--alg", "--agent")
"""Options that other programs have for the algorithm."""


class _Algorithms(TyperGroup):
    """The installed algorithms as subcommands, listed without importing any."""

    def list_commands(self, ctx: Any) -> list[str]:
        from maze_core.plugins import discovery

        return discovery.names("algorithm")

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from maze_core.plugins import discovery
        from maze_core.plugins.summaries import locate, summarise

        claims = [each for each in discovery.declarations() if (each.kind, each.name) == ("algorithm", cmd_name)]
        if not claims:
            return None
        entry_point = claims[0].entry_point
        summary = summarise(entry_point, locate(entry_point)) or cmd_name
        command = command_of(cmd_name, lambda: None, help=summary)
        command.short_help = summary  # click truncates the text that it shortens itself
        return command

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Refuse options before the algorithm's name, since the algorithm determines its options.

        With `--experiment NAME` the experiment names the algorithm.
        """
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            from maze_core.base.errors import ConfigError

            experiment, others = _experiment_in(args)
            words = [each.partition("=")[2] if each.partition("=")[0] in _NAMING else each for each in others]
            named = next((each for each in words if each in self.list_commands(ctx)), None)
            if experiment is not None and named is None:
                from maze_core.plugins.config.experiments import experiment_algorithm

                return super().parse_args(ctx, [experiment_algorithm(experiment, "maze train"), *args])
            rest = [each for each in args if each != named and each.partition("=")[0] not in _NAMING]
            hint = f"Next: maze train {named or 'ppo'} {' '.join(map(argument, rest))}"
            raise ConfigError("name the algorithm first, then its options", hint=hint)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the named algorithm, ignoring case, and generate its command."""
        name = next((known for known in self.list_commands(ctx) if known.lower() == args[0].lower()), args[0])
        if name.startswith("-"):
            return super().resolve_command(ctx, args)
        with lasting_imports():
            return name, algorithm_command(name, _train_algorithm), args[1:]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """List the experiments that there are."""
        from maze_core.plugins.config.experiments import experiments

        if found := experiments():
            with formatter.section("Experiments"):
                formatter.write_dl([(printable(name), printable(file)) for name, file in found.items()])


def _experiment_in(args: list[str]) -> tuple[str | None, list[str]]:
    """Return the value of `--experiment` and the other arguments; None where it is not given.

    Raises:
        ConfigError: it has no value.
    """
    from maze_core.base.errors import ConfigError

    found, others, rest = None, [], iter(args)
    for each in rest:
        if each == "--experiment":
            found = next(rest, None)
            if found is None:
                raise ConfigError("needs a name", "--experiment", "`maze train --help` lists the experiments.")
        elif each.startswith("--experiment="):
            found = each.partition("=")[2]
        else:
            others.append(each)
    return found, others


app = typer.Typer(
    cls=_Algorithms,
    no_args_is_help=True,
    rich_markup_mode=None,
    subcommand_metavar="ALGORITHM [OPTIONS]",
)


@app.callback()
def _train() -> None:
    """Train a policy: maze train ppo --env CartPole-v1.

    With an experiment, which names the algorithm itself: maze train --experiment NAME.
    """


def _train_algorithm(
    algorithm: str,
    parameters: dict[str, Any],
    env: str | None,
    experiment: str | None,
    config: list[Path] | None,
    preset: str | None,
    set_: list[str] | None,
    callback: list[str] | None,
    run_dir: Path | None,
    init_from: Path | None,
    quiet: bool | None,
    **common: Any,
) -> None:
    from maze_core.collect.policies.said_classes import said_classes
    from maze_core.plugins.config.assembly import Assembly
    from maze_core.plugins.config.raw import assignments_of, check_set_once
    from maze_core.plugins.config.record import CONFIG

    allow_local_modules()
    typed = placed(common) | callbacks_named(callback or ())
    check_set_once(assignments_of(typed), assignments_of(parameters))
    if quiet:
        typed["callbacks.console"] = None
    files = list(config or ())
    if init_from is not None:
        from maze_core.run.saved.found_run import find_run

        init_from = find_run(init_from)
    if experiment is not None:
        from maze_core.plugins.config.experiments import experiment as experiment_file

        files.insert(0, experiment_file(experiment))
    run_config, chosen = Assembly(said_classes([parameters, typed], set_ or ())).assemble_with_preset(
        algorithm,
        env,
        preset or "auto",
        files,
        set_ or (),
        {**typed, **parameters},
        parent=None if init_from is None else init_from / CONFIG,
    )
    from maze_core.run.api import train

    output.finish(train(run_config, run_dir, init_from, preset=chosen or None))


_EXAMPLES = """
\b
Examples:
  maze train {name} --env CartPole-v1
  maze train {name} --env CartPole-v1 --seed 1 --run-dir runs/first
  maze train {name} --config experiment.yaml --steps 100000
  maze train {name} --env my_envs:Larger-v0 --set env.kwargs.size=5
"""


def algorithm_command(name: str, train: Callable[..., None]) -> Any:
    """Return the command of an algorithm.

    Args:
        name: the algorithm.
        train: called with its name, the parameters that were given, and the value of each common option.

    Raises:
        ConfigError: there is no such algorithm.
        PluginError: it is broken.
    """
    from maze_core.plugins import discovery
    from maze_core.plugins.config.flags import flags

    plugin = discovery.load("algorithm", name)
    reserved = {name.rstrip("_") for name, *_ in COMMON}
    own = {f"algorithm__{flag.field}": flag for flag in flags(plugin.Config) if flag.field not in reserved}

    def body(**values: Any) -> None:
        typed = {key: value for key, value in values.items() if value is not None and key in own}
        parsed = {
            f"algorithm.{own[key].field}": value if own[key].boolean else own[key].parse(value)
            for key, value in typed.items()
        }
        train(name, parsed, **{key: value for key, value in values.items() if key not in own})

    parameters = [
        *common_parameters(),
        *(own_parameter(key, flag, f"Parameters of {name}") for key, flag in own.items()),
    ]
    body.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    body.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    summary = (inspect.getdoc(plugin) or name).partition("\n\n")[0].replace("\n", " ")
    return command_of(name, body, help=summary + "\n" + _EXAMPLES.format(name=name))
