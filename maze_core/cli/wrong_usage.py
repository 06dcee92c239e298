"""Errors of the command line's own form, in the form of all others."""

from __future__ import annotations

import re
from typing import Any

from maze_core.base.errors import ConfigError
from maze_core.cli.suggestions import arguments_instead, option_instead


def wrong_usage(error: Any) -> ConfigError:
    """Return an error about arguments as one of Maze, with what to type instead."""
    context = error.ctx
    asked = f"{context.command_path} -h" if context is not None else "maze -h"
    option = getattr(error, "option_name", None)
    if option is None or not hasattr(error, "possibilities"):
        text = error.format_message().rstrip(".")
        extra = re.findall(r"(?:^|[( ])([^\s()]+)(?=[ )])", text.partition("extra argument")[2].partition("(s) ")[2])
        hint = arguments_instead(extra, context.command_path) if context is not None else None
        return ConfigError(f"{text[:1].lower()}{text[1:]}", hint=hint or f"Next: {asked}")
    parameters = context.command.params if context else ()
    known = [name for each in parameters for name in each.opts]
    hint = _of_run(option, known, [each.name for each in parameters])
    hint = hint or option_instead(option, context.command_path if context is not None else "maze")
    hint = hint or _instead(option, error.possibilities, known)
    return ConfigError("there is no such option", option, hint or f"Next: {asked}")


def _of_run(option: str, known: list[str], names: list[str | None]) -> str | None:
    """Return what to type for an option that the run of a command has decided; None for others."""
    if option != "--env" or "run" not in names:
        return None
    change = " To change it: --set env.id=ID" if "--set" in known else ""
    return f"The environment is that of the run.{change}\nWithout a run: maze rollout --policy NAME --env ID"


def _instead(option: str, near: Any, known: list[str]) -> str | None:
    """Return what to type instead of an option; None where nothing comes near."""
    from maze_core.plugins.config.peers import PEERS, bare

    path = PEERS.get(bare(option), "")
    flag = f"--{path.rpartition('.')[2].replace('_', '-')}"
    if path and flag in known:
        return f"In Maze it is {flag}"
    if path and "--set" in known:
        return f"In Maze it is --set {path}=VALUE"
    return f"Did you mean {' or '.join(sorted(near))}?" if near else None
