"""Commands are plugins of the group `maze.commands`: listed without importing them, imported when called.

The name of an entry point is the command's path: `sweep` is `maze sweep`, `plugins.new` is `maze plugins new`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from maze_core.base.terminal_text import first_sentence, printable
from maze_core.base.tolerant_output import to_stderr

_FIRST = (
    "train",
    "resume",
    "fork",
    "eval",
    "rollout",
    "export",
    "sweep",
    "runs",
    "view",
    "trajectories",
    "plugins",
    "config",
    "envs",
    "init",
)
"""The order of help; other commands follow by name."""


class Commands(TyperGroup):
    """The installed commands, by name."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands; imports none."""
        names = {path.partition(".")[0] for path in _paths()}
        return [name for name in _FIRST if name in names] + sorted(names - {*_FIRST})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a placeholder that imports the command when it is called; None for an unknown one."""
        return deferred(cmd_name) if cmd_name in self.list_commands(ctx) else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve a command; for an unknown one, suggest similar names or what to install."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            from maze_core.base.errors import ConfigError
            from maze_core.base.terminal_text import shown
            from maze_core.cli.wrong_usage import command_instead
            from maze_core.plugins import discovery

            if advice := command_instead(args[0]):
                raise ConfigError(f"unknown command {shown(args[0])}", hint=advice)
            discovery.load("command", args[0])
        return super().resolve_command(ctx, args)


class _Deferred(TyperCommand):
    """Placeholder of a command. It imports the plugin when it is called or asked for its help."""

    path: str = ""
    """The name of the entry point."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the command itself."""
        return command(self.path).make_context(info_name, args, parent, **extra)

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return one line about the command. It is read from a source file, which takes milliseconds."""
        return _summary(self.path)


def deferred(path: str, hidden: bool = False) -> _Deferred:
    """Return the placeholder of the command with this entry-point name."""
    found = _Deferred(path.rpartition(".")[2], hidden=hidden)
    found.path = path
    return found


def command(path: str) -> Any:
    """Return the command with this entry-point name, with the subcommands that other entry points add.

    Raises:
        ConfigError: there is none.
        PluginError: it cannot be imported, or is no command.
    """
    from maze_core.plugins import discovery

    below = _below(path)
    for each in discovery.hidden("command", path):
        _warn(f"the command {path!r} of {each.origin} is not used: Maze has one of that name")
    if below and path not in discovery.names("command"):
        found: Any = _mounted(typer.Typer(help=_contents(below), no_args_is_help=True), path)
    else:
        found = _mounted(discovery.load("command", path), path)
    if not hasattr(found, "add_command"):  # a function: it can have no subcommands
        for name in below:
            _warn(f"the command {path}.{name} is not used: `maze {path}` has no commands below it")
        return found
    for each in found.commands.values():
        each.short_help = each.short_help or first_sentence(each.help or "")  # click cuts what it shortens itself
    for name in below:
        if name in found.commands:
            _warn(f"the command {path}.{name} is not used: `maze {path}` has one of that name")
        else:
            found.add_command(deferred(f"{path}.{name}"), name)
    for missing in discovery.missing_below("command", f"{path}."):
        found.add_command(deferred(missing, hidden=True), missing.rpartition(".")[2])
    return found


def _mounted(plugin: Any, path: str) -> Any:
    """Return a Typer app or a function as a command, as `add_typer` and `command` of a parent app do.

    Raises:
        PluginError: Typer cannot make a command of it.
    """
    name = path.rpartition(".")[2]
    parent = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    parent.callback()(lambda: None)
    if isinstance(plugin, typer.Typer):
        parent.add_typer(plugin, name=name)
    else:
        parent.command(name, cls=getattr(plugin, "command_class", None))(plugin)
    try:
        group: Any = typer.main.get_command(parent)
    except Exception as error:  # Typer raises various errors for an unsupported signature
        from maze_core.base.errors import PluginError
        from maze_core.plugins.discovery import claims, describe

        title = claims("command", path)[0].title
        raise PluginError(f"{title}: Typer cannot make a command of it: {describe(error)}") from error
    return group.commands[name]


def _paths() -> list[str]:
    """Return the names of entry points that can be typed, but for those with an empty word or one like an option."""
    from maze_core.plugins import discovery

    return [path for path in discovery.names("command") if not any(word[:1] in ("", "-") for word in path.split("."))]


def _below(path: str) -> list[str]:
    """Return the names of a command's direct subcommands from entry points."""
    names = [name.removeprefix(f"{path}.") for name in _paths() if name.startswith(f"{path}.")]
    return list(dict.fromkeys(name.partition(".")[0] for name in names))


def _summary(path: str) -> str:
    """Return one line about a command, read from its source file."""
    from maze_core.plugins import discovery
    from maze_core.plugins.summaries import locate, summarise

    claims = discovery.claims("command", path)
    if claims:
        return printable(summarise(claims[0].entry_point, locate(claims[0].entry_point)))
    return _contents(_below(path))


def _contents(names: list[str]) -> str:
    return printable(f"Commands: {', '.join(names)}.")


def _warn(message: str) -> None:
    to_stderr(f"warning: {message}")


@contextmanager
def lasting_imports() -> Iterator[None]:
    """Import without garbage collection, and leave everything that exists afterwards out of later ones.

    torch creates hundreds of thousands of objects that last. To search them again and again would take a seventh of
    the seconds in which PPO solves CartPole-v1.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
