"""Errors in the words of the Python API: what the command line calls `--run-dir` is the argument `run_dir` there."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from typing import Any

from maze_core.base.errors import ConfigError

_ARGUMENTS = (
    *("env", "experiment", "config", "preset", "wrappers", "model", "runner", "seed", "steps", "epochs", "run_dir"),
    *("init_from", "episodes", "checkpoint", "workers", "record", "policy", "deterministic"),
)
"""Options that are arguments of the same name; any other that `_PATHS` lacks is a parameter of the algorithm."""
_PATHS = {"env_source": "env.name", "learners": "learners", "patience": "callbacks.early_stopping.patience"}
"""Options that set a value elsewhere."""
_SET = re.compile(r"--set (?:'([^\s=']+)=([^']*)'|([\w./-]+)=(\[[^\]]*\]|[^\s,;']*[^\s,;'.:)]))")
"""A path and a value, quoted for a shell or not."""
_WORD = re.compile(r"""(?<![\w."'])[A-Za-z_][\w./:-]*""")
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)(?:[ =]((?!or\b|and\b|in\b|names?\b)[\w./…,:\[\]-]*[\w\]…]))?")


def in_python_words(owner: type[Any]) -> type[Any]:
    """Let the errors of a class's methods speak of arguments where the command line has options."""
    for name, member in list(vars(owner).items()):
        if isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(owner, name, _translating(member))
        elif isinstance(member, classmethod):
            setattr(owner, name, classmethod(_translating(member.__func__)))
        elif isinstance(member, property) and member.fget is not None:
            setattr(owner, name, property(_translating(member.fget)))
    return owner


def _translating(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except ConfigError as error:
            error.where = error.where and re.sub(r"^--[a-z-]+$", _bare, error.where)
            error.message, error.hint = translated(error.message), error.hint and translated(error.hint)
            error.args = ConfigError(error.message, error.where, error.hint).args
            raise

    return call


def translated(text: str) -> str:
    """Return a text with arguments in place of options; commands to be typed in a shell stay as they are."""
    return "\n".join(map(_line, text.split("\n")))


def _line(line: str) -> str:
    told, *command = re.split(r"(?=\bmaze )", line, maxsplit=1)
    told = _SET.sub(lambda found: _override(found[1] or found[3], found[2] or found[4]), told)
    return "".join([_OPTION.sub(_argument, told).replace("} overrides={", ", "), *command])


def _override(path: str, value: str) -> str:
    return f'overrides={{"{path}": {_literal(value)}}}'


def _literal(value: str) -> str:
    """Return a value of the command line as one of Python; `…` and numbers stay as they are."""
    if value.lower() in ("true", "false", "none", "null"):
        return {"null": "None"}.get(value.lower(), value.capitalize())
    if value.startswith(("[", "{")):
        return _WORD.sub(lambda found: _literal(found[0]), value)
    return value if re.match(r"[-\d.…]", value) else f'"{value}"'


def _bare(found: re.Match[str]) -> str:
    return found[0].removeprefix("--").replace("-", "_")


def _argument(found: re.Match[str]) -> str:
    name, value = found[1].replace("-", "_"), found[2]
    if name == "set":
        return value or "overrides"
    if name == "wrappers" and value is not None:
        return f"wrappers=[{', '.join(map(_literal, value.split(',')))}]"
    if name in _ARGUMENTS:
        return name if value is None else f"{name}={_literal(value)}"
    if name in ("no_look_ahead", "quiet"):
        return "look_ahead=False" if name == "no_look_ahead" else "silent=True"
    if name in _PATHS:
        return _PATHS[name] if value is None else _override(_PATHS[name], value)
    if value is None and name.startswith("no_"):
        return _override(f"algorithm.{name.removeprefix('no_')}", "false")
    return f"algorithm.{name}" if value is None else _override(f"algorithm.{name}", value)
