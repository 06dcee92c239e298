"""What users ask of a library: an environment that it has, arguments that this takes, parameters by name."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from maze_core import ConfigError
from maze_core.base.terminal_text import shown
from maze_core.plugins.config.explain import nearest
from maze_core.plugins.discovery import describe


def chosen(library: str, name: str, known: Iterable[str]) -> str:
    """Return the name of an environment that a library has.

    Raises:
        ConfigError: it has none of that name.
    """
    names = list(known)
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=2, cutoff=0.5)
    listed = f"`maze envs list {library}:` lists the environments."
    hint = f"Did you mean {' or '.join(f'{library}:{each}' for each in near)}?" if near else listed
    raise ConfigError(f"{library} has no environment {shown(name)}", "env.id", hint)


def built(library: str, make: Callable[..., Any], name: str, kwargs: Mapping[str, Any]) -> Any:
    """Return what a library's function makes of a name and arguments.

    Raises:
        ConfigError: it refuses them.
    """
    try:
        return make(name, **kwargs)
    except Exception as error:
        where = "env.kwargs" if kwargs else "env.id"
        raise ConfigError(f"{library} does not build {shown(name)}: {describe(error)}", where) from error


def with_parameters(default: Any, params: Mapping[str, Any]) -> Any:
    """Return parameters, a dataclass with numbers, with other values.

    Raises:
        ConfigError: there is no parameter of a name.
    """
    known = [each.name for each in dataclasses.fields(default)]
    for name in params:
        if name not in known:
            raise ConfigError(f"there is no such parameter; {nearest(name, known)}", f"env.params.{name}")
    return dataclasses.replace(default, **params)


def no_parameters(library: str, params: Mapping[str, Any]) -> None:
    """Raise ConfigError where parameters are given to a library whose environments have arguments alone."""
    if params:
        raise ConfigError(
            f"environments of {library} have no parameters beside their arguments",
            f"env.params.{next(iter(params))}",
            "Next: env.kwargs",
        )
