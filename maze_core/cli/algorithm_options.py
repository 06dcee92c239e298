"""The options of an algorithm's command: those that all have, and those generated from its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from maze_core.plugins.config.flags import Flag

COMMON: tuple[tuple[str, Any, str, str, str], ...] = (
    ("env", str | None, "--env", "ID", "Environment id, such as CartPole-v1 or module:Id."),
    ("env_source", str | None, "--env-source", "NAME", "Env source plugin; default: the one that has --env."),
    (
        "experiment",
        str | None,
        "--experiment",
        "NAME",
        "A file of the folder experiments, or of an installed package; it may name the algorithm, too.",
    ),
    ("config", list[Path] | None, "--config,-c", "FILE", "YAML file; repeatable, later files win."),
    (
        "preset",
        str | None,
        "--preset",
        "NAME",
        "A preset's name or file (.yaml), or none; default: the preset with the environment's name.",
    ),
    (
        "set_",
        list[str] | None,
        "--set",
        "PATH=VALUE",
        "Set any value, such as evaluation.n_episodes=20; repeatable.",
    ),
    ("wrappers", str | None, "--wrappers", "A,B", "Environment wrappers; the first is innermost."),
    (
        "callback",
        list[str] | None,
        "--callback",
        "NAME",
        "A callback plugin, or a class of your own, module:Class; repeatable.",
    ),
    ("model", str | None, "--model", "NAME", "Model plugin; default: mlp."),
    ("runner", str | None, "--runner", "NAME", "dev: in this process (default); local: in worker processes."),
    (
        "learners",
        str | None,
        "--learners",
        "N",
        "Processes that compute gradients, each on its share of a batch; default: 1.",
    ),
    ("seed", str | None, "--seed", "N", "Seed of all random numbers; default: drawn and saved."),
    ("steps", str | None, "--steps", "N", "Environment steps to train, summed over all environments."),
    ("epochs", str | None, "--epochs", "N", "Epochs to train; the same as --n-epochs."),
    ("max_time", str | None, "--max-time", "TIME", "End after this time, such as 90m or 2h; `maze resume` goes on."),
    (
        "patience",
        str | None,
        "--patience",
        "N",
        "Epochs without a new best evaluation before the run stops; 0: never. Default: 0 with --steps or --epochs, "
        "otherwise 15 for most algorithms.",
    ),
    ("run_dir", Path | None, "--run-dir,--dir", "DIR", "The run's folder, new or empty; default: a new one in runs/."),
    ("init_from", Path | None, "--init-from", "RUN", "Start from the weights of another run, or a policy's address."),
    ("quiet", bool | None, "--quiet,-q", "", "Print no progress."),
)
"""The options of every algorithm's command: name, type, spellings, metavar, help."""


def common_parameters() -> list[inspect.Parameter]:
    """Return the options of every algorithm's command as parameters of its function."""
    return [
        _keyword(name, kind, spellings.split(","), help, "Run", {"metavar": metavar} if metavar else {})
        for name, kind, spellings, metavar, help in COMMON
    ]


def own_parameter(key: str, flag: Flag, panel: str) -> inspect.Parameter:
    """Return an option for a parameter of the algorithm; `panel`: the title that it is listed below."""
    default = f"[default: {flag.default}]" if flag.default else "[required]"
    more = {"metavar": default if flag.boolean else f"{flag.metavar or 'TEXT'} {default}"}
    notes = [flag.limits, default.strip("[]") if flag.boolean else ""]  # a switch shows no metavar
    text = f"{flag.description} ({', '.join(filter(None, notes))})" if any(notes) else flag.description
    return _keyword(key, bool | None if flag.boolean else str | None, [flag.option], text, panel, more)


def _keyword(
    name: str, kind: Any, spellings: list[str], help: str, panel: str, more: dict[str, Any]
) -> inspect.Parameter:
    option = typer.Option(*spellings, help=help, rich_help_panel=panel, show_default=False, **more)
    annotation: Any = Annotated[kind, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def command_of(name: str, body: Callable[..., None], help: str) -> Any:
    """Return a single Typer command made from a function whose signature holds the options."""
    single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    single.command(name, help=help, cls=_AlgorithmCommand)(body)
    command = typer.main.get_command(single)
    command.name = name
    return command


class _AlgorithmCommand(TyperCommand):
    """Shows each option with its default on its own line, never wrapped, and its meaning below."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None:
                panels.setdefault(getattr(option, "rich_help_panel", None) or "Help", []).append(record)
        for title, records in panels.items():
            with formatter.section(title):
                for name, meaning in records:
                    formatter.write_text(name)
                    with formatter.indentation():
                        formatter.indent()
                        formatter.write_text(meaning)
                        formatter.dedent()
