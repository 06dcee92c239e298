"""Configuration values that reach outside the run: folders to write to, addresses to connect to.

A plugin marks such a field in its `Config`:

    folder: Annotated[Path, Outside.FOLDER] = Path("recordings")
    address: Annotated[str | None, Outside.ADDRESS] = None

The `config.yaml` of a saved run may come from someone else. So a marked value in it is used only if it stays within
the current folder, the run's own and this machine, or if the command line repeats it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from maze_core.config.raw import PARTS, Raw, assign
from maze_core.errors import ConfigError, MazeError
from maze_core.terminal_text import argument, shown

if TYPE_CHECKING:
    from pydantic import BaseModel

    from maze_core.plugins.discovery import Loader

Place = tuple[str, ...]
Assignments = Sequence[tuple[Place, Any]]
"""Paths and values that the command line sets."""
_OWN_HOSTS = ("localhost", "local", "auto")


class Outside(Enum):
    """What a field of a plugin's configuration refers to."""

    FOLDER = "folder"
    """One or more folders that the plugin writes to, or sends elsewhere."""
    ADDRESS = "address"
    """A machine that the plugin connects to, as host:port or URL."""

    def is_elsewhere(self, value: Any, homes: Iterable[Path]) -> bool:
        """Return True if a value refers to another machine, or to a folder outside all these folders."""
        values = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
        if self is Outside.ADDRESS:
            return not all(map(_is_this_machine, values))
        known = [home.resolve() for home in homes]
        return not all(any(Path(each).resolve().is_relative_to(home) for home in known) for each in values)


@dataclass(frozen=True)
class Reach:
    """A marked value in a configuration."""

    place: Place
    plugin: str
    kind: Outside
    value: Any

    def refusal(self, source: Path) -> ConfigError:
        """Return the error for a value that the command line does not repeat."""
        where = ".".join(self.place)
        verb = "write to" if self.kind is Outside.FOLDER else "connect to"
        value = self.value if isinstance(self.value, str) else f"[{','.join(map(str, self.value))}]"
        return ConfigError(
            f"{argument(source)} would {verb} {shown(self.value)}, which needs your permission",
            where,
            f"To allow it, repeat the value: --set {argument(f'{where}={value}')}",
        )


def marked_fields(model: type[BaseModel]) -> dict[str, Outside]:
    """Return the marked fields of a plugin's configuration."""
    marks = ((name, mark) for name, field in model.model_fields.items() for mark in field.metadata)
    return {name: mark for name, mark in marks if isinstance(mark, Outside)}


def reaches(raw: Raw, load: Loader) -> list[Reach]:
    """Return the marked values that a configuration sets."""
    return [
        Reach((*place, field), part["name"], kind, part[field])
        for place, part, fields in _marked_parts(raw, load)
        for field, kind in fields.items()
        if part.get(field) not in (None, [])
    ]


def elsewhere(raw: Raw, load: Loader, source: Path, agreed: Raw | None = None) -> list[Reach]:
    """Return marked values that refer to another machine, or leave the current folder and that of the file `source`.

    Values that `agreed`, the caller's own configuration, contains too are left out.
    """
    homes = (Path.cwd(), source.parent)
    away = [each for each in reaches(raw, load) if each.kind.is_elsewhere(each.value, homes)]
    return [each for each in away if agreed is None or _at(agreed, each.place) != each.value]


def assigned(raw: Raw, assignments: Assignments, doubtful: Sequence[Reach], source: Path) -> Raw:
    """Return `raw` without its doubtful values and with assignments applied.

    Raises:
        ConfigError: a part has lost its value, and no assignment sets it.
    """
    result = assign(without(raw, doubtful), assignments)
    for each in doubtful:
        check_said(each, result, assignments, source)
    return result


def check_said(reach: Reach, result: Raw, assignments: Assignments, source: Path) -> None:
    """Raise ConfigError if the part is still in `result` and no assignment sets its value again."""
    part = _at(result, reach.place[:-1])
    # A callback without a name is named by its key.
    same = isinstance(part, dict) and part.get("name", reach.place[-2]) == reach.plugin
    if same and reach.place[-1] not in part and not _is_set(reach.place, assignments):
        raise reach.refusal(source)


def for_evaluation(raw: Raw, assignments: Assignments, load: Loader, source: Path) -> tuple[Raw, list[str]]:
    """Return a saved configuration, to evaluate or to act, with assignments applied, and the parts left out of it.

    Left out are wrappers and callbacks with a marked field, unless an assignment sets them; a runner with one is
    replaced by `dev`.

    Raises:
        ConfigError: another part refers elsewhere, and no assignment sets the value again.
    """
    away = elsewhere(raw, load, source)
    doubtful = [each for each in reaches(raw, load) if each.place[0] in ("wrappers", "callbacks", "runner")]
    firm = [each for each in away if each.place[0] not in ("wrappers", "callbacks", "runner")]
    result = assign(without(raw, [*doubtful, *firm]), assignments)
    for each in firm:
        check_said(each, result, assignments, source)
    left_out = {
        place: f"{'.'.join(place)} ({part['name']})"
        for place, part, fields in _marked_parts(result, load)
        if _is_left_out(place, part, fields, assignments)
    }
    result = without(result, left_out)
    return {"runner": {"name": "dev"}, **result}, list(left_out.values())


def without_missing(
    raw: Raw, assignments: Assignments, load: Loader, observers: Mapping[str, str]
) -> tuple[Raw, list[str]]:
    """Return a configuration without the observers that cannot be imported here, and what was left out.

    `observers` are the callbacks that only observe, by key, with their names. One that an assignment sets stays.
    """
    missing: dict[Place, str] = {}
    for kind, place, part in _parts(raw):
        name = part.get("name")
        if kind == "callback" and observers.get(place[1]) == name and not _is_set((*place, ""), assignments):
            try:
                load(kind, str(name))
            except MazeError:
                missing[place] = f"{'.'.join(place)} ({name})"
    return without(raw, missing), list(missing.values())


def _is_left_out(place: Place, part: Raw, fields: Iterable[str], assignments: Assignments) -> bool:
    if place == ("runner",):
        return not any(path[:1] == place for path, _ in assignments)
    observes = place[0] in ("wrappers", "callbacks")
    return observes and not any(field in part or _is_set((*place, field), assignments) for field in fields)


def without(raw: Raw, taken: Iterable[Reach | Place]) -> Raw:
    """Return a copy without the values `taken`."""
    result = assign(raw, ())
    places = [each.place if isinstance(each, Reach) else each for each in taken]
    for place in sorted(places, key=lambda place: [int(key) if key.isdigit() else -1 for key in place], reverse=True):
        owner = _at(result, place[:-1])
        del owner[int(place[-1]) if isinstance(owner, list) else place[-1]]
    return result


def _marked_parts(raw: Raw, load: Loader) -> Iterator[tuple[Place, dict[str, Any], dict[str, Outside]]]:
    """Yield the parts with marked fields: their place, their values, and the fields."""
    for kind, place, part in _parts(raw):
        name = part.get("name")
        if not isinstance(name, str):
            continue
        try:
            fields = marked_fields(load(kind, name).Config)
        except MazeError:  # reported when the whole configuration is validated
            continue
        if fields:
            yield place, part, fields


def _parts(raw: Raw) -> Iterator[tuple[str, Place, dict[str, Any]]]:
    wrappers, callbacks = raw.get("wrappers"), raw.get("callbacks")
    found: list[tuple[str, Place, Any]] = [(part, (part,), raw.get(part)) for part in PARTS]
    if isinstance(wrappers, list):
        found += [("wrapper", ("wrappers", str(index)), each) for index, each in enumerate(wrappers)]
    if isinstance(callbacks, dict):
        named = {key: {"name": key, **each} for key, each in callbacks.items() if isinstance(each, dict)}
        found += [("callback", ("callbacks", key), each) for key, each in named.items()]
    return ((kind, place, part) for kind, place, part in found if isinstance(part, dict))


def _is_set(place: Place, assignments: Assignments) -> bool:
    return any(place[: len(path)] == path for path, _ in assignments)


def _at(tree: Any, place: Place) -> Any:
    for key in place:
        if isinstance(tree, list):
            tree = tree[int(key)] if key.isdigit() and int(key) < len(tree) else None
        else:
            tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _is_this_machine(address: str) -> bool:
    try:
        host = urlsplit(address if "://" in address else f"//{address}").hostname or ""
        return host in _OWN_HOSTS or ip_address(host).is_loopback
    except ValueError:
        return False
