"""Wrapper, callback and schedule classes that a configuration names as `module:Class`: only the user may choose them.

A file may hold such a name, as a record of what the run was trained with. It is used only if the command line or the
program names the same class again, so a file from someone else cannot run a class of its choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from maze_core.base.errors import ConfigError
from maze_core.base.local_modules import named_modules, needs_permission, way_to_permit
from maze_core.base.terminal_text import argument, shown

_PLACE = re.compile(
    r"wrappers(\.\d+(\.(id|name))?)?|callbacks\.[^.]+(\.name)?|algorithm\.(exploration|[^.]+\.schedule)"
)


def named_classes(data: Any) -> Iterator[tuple[str, str]]:
    """Yield place and name of each such class in plain data, whose keys may be paths such as `wrappers.0.id`."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            if _PLACE.fullmatch(str(key)):
                yield from _below(str(key), value)
            elif key in ("callbacks", "algorithm") and isinstance(value, Mapping):
                yield from named_classes({f"{key}.{name}": part for name, part in value.items()})
            elif str(key).startswith("algorithm.") and isinstance(value, Mapping) and "schedule" in value:
                yield from _below(f"{key}.schedule", value["schedule"])
            else:
                yield from named_classes(value)


def check_classes(files: Any, said: Any, source: Path | str) -> None:
    """Raise ConfigError if `files`, read from `source`, names a class that `said` does not name too.

    `said`: values by path, set by the command line or the program.
    """
    known = {name for _, name in named_classes(said)}
    for place, name in named_classes(files):
        if name not in known and not _is_removed(place, said):
            where = place if place.endswith((".id", ".name", ".schedule", ".exploration")) else f"{place}.id"
            raise ConfigError(
                f"{argument(source)} would import and run the class {shown(name)}, which needs your permission",
                place,
                f"If you trust it, repeat it: --set {argument(f'{where}={name}')}",
            )


def _is_removed(place: str, said: Mapping[str, Any]) -> bool:
    """Return True if the user removes a part, such as `callbacks.alert`, that a place is in."""
    parts = place.split(".")
    return any(said.get(".".join(parts[:count]), place) is None for count in range(1, len(parts)))


def check_modules(files: Any, source: Path | str) -> None:
    """Raise ConfigError if `files`, read from `source`, names a module of the current folder that the user did not."""
    for name in named_modules(files):
        if needs_permission(name):
            raise ConfigError(
                f"{argument(source)} would import the module {name} of the current folder, which needs your permission",
                hint=way_to_permit(name),
            )


def _below(place: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _below(f"{place}.{index}", each)
    elif isinstance(value, Mapping):
        for key in ("id", "name"):
            yield from _below(f"{place}.{key}", value.get(key))
    elif isinstance(value, str) and ":" in value:
        yield place, value
