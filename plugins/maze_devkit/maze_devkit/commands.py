"""The checks of commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.subject import Subject

_MAIN = "maze_core.cli.main"
_FIRST = (__name__, _MAIN, "maze_core.cli.group", "packaging.requirements", "pydantic.fields", "pydantic.types")
"""What every command needs."""
_UNKNOWN = "--no-such-option"


def _maze(subject: Subject, *arguments: str) -> tuple[int, str, str]:
    """Return exit code and outputs of `maze NAME ARGUMENTS` in an empty folder."""
    subject.plugin  # noqa: B018 — where it cannot be imported, another check says so
    typed = ["maze", *subject.name.split("."), *arguments]
    subject.folder.mkdir(parents=True, exist_ok=True)
    done = subject.bench.fresh.call(_FIRST, f"{__name__}:maze", typed, folder=subject.folder)
    return done.code, done.printed, done.said


def maze(typed: list[str]) -> None:
    """Run in the new process: what the command `maze` does."""
    sys.argv = typed
    import_module(_MAIN).main()


def _help(subject: Subject) -> None:
    code, printed, said = _maze(subject, "--help")
    if code or "Usage:" not in printed:
        raise Failed(f"`--help` ends with {code} and prints {printed or said!r:.200}")
    if left := sorted(path.name for path in subject.folder.iterdir()):
        raise Failed(f"`--help` writes {', '.join(left)} to the current folder")


def _refuses(subject: Subject) -> None:
    code, _, said = _maze(subject, _UNKNOWN)
    if code != 2 or "Traceback" in said:
        raise Failed(f"with {_UNKNOWN} it ends with {code}, not with 2: {said.strip()!r:.200}")


def _options_described(subject: Subject) -> None:
    from maze_core.cli.group import command

    subject.plugin  # noqa: B018 — as above
    bare = list(_undescribed(command(subject.name), ""))
    if bare:
        raise Failed(f"there is no help for {', '.join(bare)}")


def _undescribed(command: Any, place: str) -> Iterator[str]:
    for each in command.params:
        if not getattr(each, "help", None) and not getattr(each, "hidden", False):
            yield f"{place}{each.opts[0] if each.opts else each.name}"
    for name, child in getattr(command, "commands", {}).items():
        if not getattr(child, "path", ""):  # added by other distributions
            yield from _undescribed(child, f"{place}{name} ")


def _alone(subject: Subject) -> None:
    from maze_core.plugins import discovery

    if subject.claim in discovery.hidden("command", subject.name):
        raise Failed(f"Maze has a command {subject.name!r}, so this one is never called")
    above = subject.name.rpartition(".")[0]
    if not above:
        return
    if not discovery.claims("command", above):
        raise NotApplicable(f"no command {above!r} is installed; its help is generated from its subcommands")


CHECKS = (
    Check(
        "not_hidden",
        "No command that comes with Maze has that name.",
        "The commands of Maze cannot be replaced: yours would never be called.",
        "Rename the entry point in pyproject.toml and install again.",
        _alone,
    ),
    Check(
        "help",
        "`--help` prints the usage, ends with exit code 0 and leaves nothing behind.",
        "Help is what users call first, even before anything is set up.",
        "Do the work in the function's body; importing the module must only define it.",
        _help,
    ),
    Check(
        "refuses",
        "An unknown option ends with exit code 2 and without a traceback.",
        "Scripts distinguish wrong input (2) from a failure (1) by the exit code.",
        "Leave parsing to Typer; raise maze_core.ConfigError for wrong input.",
        _refuses,
    ),
    Check(
        "options_described",
        "Every argument and option has a help text.",
        "`--help` is the only documentation of a command on a terminal.",
        'Write Annotated[…, typer.Option(help="…")].',
        _options_described,
    ),
)
"""The checks of commands, in addition to those of every plugin."""
