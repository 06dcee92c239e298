"""Wrapper classes that a configuration names as `module:Class`: only who starts a command may name them.

A file may hold such a name, so that a run knows what it was trained with. It counts where the command line, or the
program, names the same class again: a file that somebody else wrote runs no class of its choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from maze_core.errors import ConfigError
from maze_core.wording import argument, shown

_PLACE = re.compile(r"wrappers(\.\d+(\.(id|name))?)?")


def named_classes(data: Any) -> Iterator[tuple[str, str]]:
    """Place and name of each wrapper class in plain data, whose keys may be paths such as `wrappers.0.id`."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            if _PLACE.fullmatch(str(key)):
                yield from _below(str(key), value)
            else:
                yield from named_classes(value)


def check_classes(files: Any, said: Any, source: Path | str) -> None:
    """Raise ConfigError where `files`, read from `source`, name a wrapper class that `said` does not name as well.

    `said`: what the command line or the program sets, as values by path.
    """
    known = {name for _, name in named_classes(said)}
    for place, name in named_classes(files):
        if name not in known:
            where = place if place.endswith(".id") else f"{place}.id"
            raise ConfigError(
                f"{argument(source)} wants to import and run the class {shown(name)}, which only you may decide",
                place,
                f"If you know it, say it again: --set {argument(f'{where}={name}')}",
            )


def by_path(assignments: Iterable[tuple[tuple[str, ...], Any]]) -> dict[str, Any]:
    """Assignments as values by path."""
    return {".".join(path): value for path, value in assignments}


def _below(place: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _below(f"{place}.{index}", each)
    elif isinstance(value, Mapping):
        for key in ("id", "name"):
            yield from _below(f"{place}.{key}", value.get(key))
    elif isinstance(value, str) and ":" in value:
        yield place, value
