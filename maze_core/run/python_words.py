"""Errors in the words of the Python API: what the command line calls `--run-dir` is the argument `run_dir` there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from inspect import isfunction
from typing import Any, ParamSpec, TypeVar

from maze_core.base.errors import ConfigError
from maze_core.plugins.extensions import in_notebook

_P = ParamSpec("_P")
_T = TypeVar("_T")
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
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)(?:[ =]((?!or\b|and\b|in\b|name[ds]?\b)[\w./…,:\[\]-]*[\w\]…]))?")
_RUN = re.compile(
    r"maze (resume|eval) (?!RUN\b)((?>(?:'[^']*'|[^\s',;])+))"
    r"((?>(?: --(?:stochastic|(?:checkpoint|episodes) \w+))*))(?! --)"
)
"""A command about a run, with the options that have an argument of the API."""


def in_python_words(owner: type[Any]) -> type[Any]:
    """Let the errors of a class's methods speak of arguments where the command line has options."""
    for name, member in list(vars(owner).items()):
        if isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(owner, name, translating(member))
        elif isinstance(member, classmethod):
            setattr(owner, name, classmethod(translating(member.__func__)))
        elif isinstance(member, property) and member.fget is not None:
            setattr(owner, name, property(translating(member.fget)))
    return owner


def translating(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function whose errors speak of arguments, and are short in a notebook."""

    @wraps(function)
    def call(*given: _P.args, **named: _P.kwargs) -> _T:
        try:
            return function(*given, **named)
        except BaseException as error:
            if isinstance(error, ConfigError):
                error.where = error.where and re.sub(r"^--[a-z-]+$", _bare, error.where)
                error.message, error.hint = translated(error.message), error.hint and translated(error.hint)
                error.args = ConfigError(error.message, error.where, error.hint).args
            with suppress(Exception):  # the error itself matters more
                error.__notes__ = [translated(note) for note in getattr(error, "__notes__", ())]
                in_notebook("shorten", error)
            raise

    return call


def translated(text: str) -> str:
    """Return a text with arguments in place of options, and calls in place of commands about runs; others stay."""
    return "\n".join(map(_line, text.split("\n")))


def _line(line: str) -> str:
    told, *command = re.split(r"(?=\bmaze )", line, maxsplit=1)
    told = _SET.sub(lambda found: _override(found[1] or found[3], found[2] or found[4]), told)
    calls = [_RUN.sub(_call, each) for each in command]
    return "".join([_OPTION.sub(_argument, told).replace("} overrides={", ", "), *calls])


def _call(found: re.Match[str]) -> str:
    """Return the call that does what `maze eval RUN` or `maze resume RUN` does."""
    options = dict(re.findall(r"--(\w+) ?(\w*)", found[3]))
    opened = [json.dumps(found[2].strip("'"), ensure_ascii=False)]
    opened += [f'checkpoint="{options["checkpoint"]}"'] if "checkpoint" in options else []
    if found[1] == "resume":
        return f"RunContext.reopen({', '.join(opened)}).train()"
    played = [*filter(None, [options.get("episodes")]), *(["deterministic=False"] if "stochastic" in options else [])]
    return f"RunContext.open({', '.join(opened)}).evaluate({', '.join(played)})"


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
