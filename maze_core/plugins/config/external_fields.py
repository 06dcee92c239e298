"""Configuration values that reach outside the run: folders to write to, addresses to connect to.

A plugin marks such a field in its `Config`:

    folder: Annotated[Path, Outside.FOLDER] = Path("recordings")
    address: Annotated[str | None, Outside.ADDRESS] = None
    mode: Annotated[Literal["offline", "online"], Outside.CONNECTION.but("offline")] = "offline"

The `config.yaml` of a saved run may come from someone else, and so may a preset of the current folder. So a marked
value in it is used only if it stays within the current folder, the file's own and this machine, or if the command line
repeats it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import ValidationError

from maze_core.base.errors import ConfigError, MazeError
from maze_core.base.terminal_text import argument, shown
from maze_core.plugins.config.here import is_address_here, is_argument_here, is_folder_here, texts
from maze_core.plugins.config.raw import NAMED, PARTS, Raw, assign

if TYPE_CHECKING:
    from pydantic import BaseModel

    from maze_core.plugins.discovery import Loader

Place = tuple[str, ...]
Assignments = Sequence[tuple[Place, Any]]
"""Paths and values that the command line sets."""


class Outside(Enum):
    """What a field of a plugin's configuration refers to."""

    FOLDER = "write to"
    """One or more folders or files that the plugin writes to, or sends elsewhere."""
    ADDRESS = "connect to"
    """A machine or store that the plugin connects to, as host:port or URL."""
    CONNECTION = "connect with the setting"
    """A setting with which the plugin connects, or that says under whose name: every value but those of `but`."""
    ARGUMENTS = "pass on"
    """Values for the code of others. Any text in them may be a path or an address."""
    PLUGIN = "name a policy"
    """A policy plugin, by its name or with its parameters: what these are marked with counts."""
    NOTHING = "write and connect to nothing"
    """The plugin only reads there, or stays within the run: nothing is asked."""

    def but(self, *harmless: str) -> Mark:
        """Return the mark with values that reach nothing, such as `offline`."""
        return Mark(self, harmless)

    def is_elsewhere(self, value: Any, homes: Iterable[Path]) -> bool:
        """Return True if a value refers to another machine, or to a folder outside all these folders."""
        known = tuple(homes)
        if self in (Outside.NOTHING, Outside.PLUGIN):
            return False
        tests = {
            Outside.FOLDER: is_folder_here,
            Outside.ADDRESS: is_address_here,
            Outside.ARGUMENTS: is_argument_here,
        }
        return self is Outside.CONNECTION or not all(tests[self](text, known) for text in texts(value))


@dataclass(frozen=True)
class Mark:
    """What a field refers to, unless it has one of some values."""

    kind: Outside
    harmless: tuple[str, ...] = ()

    def reaches(self, value: Any) -> bool:
        """Return True if this value may reach outside."""
        return value not in (None, [], {}) and value not in self.harmless


@dataclass(frozen=True)
class Reach:
    """A marked value in a configuration."""

    place: Place
    part: Place
    """The place of the plugin's part."""
    plugin: str
    kind: Outside
    value: Any

    @property
    def where(self) -> str:
        """The path of the value."""
        return ".".join(self.place)

    @property
    def text(self) -> str:
        """The value as the command line takes it."""
        if isinstance(self.value, list) and all(isinstance(each, str) for each in self.value):
            return f"[{','.join(self.value)}]"
        return self.value if isinstance(self.value, str) else json.dumps(self.value)

    def problem(self, source: Path) -> str:
        """Return what a file would do with the value."""
        return f"{argument(source)} would {self.kind.value} {shown(self.text)}, which needs your permission"


@dataclass(frozen=True)
class _Part:
    """A part with marked fields."""

    place: Place
    name: str
    values: dict[str, Any]
    marks: dict[str, Mark]

    def reaches(self) -> Iterator[Reach]:
        """Yield the marked values that may reach outside."""
        for field, mark in self.marks.items():
            keys = tuple(field.split("."))
            for place, value in _values(_at(self.values, keys), mark.kind is Outside.ARGUMENTS):
                if mark.kind not in (Outside.NOTHING, Outside.PLUGIN) and mark.reaches(value):
                    yield Reach((*self.place, *keys, *place), self.place, self.name, mark.kind, value)


def _values(value: Any, singly: bool) -> Iterator[tuple[Place, Any]]:
    """Yield a value, or `singly` those of its keys, each with its place in it; keys may be addresses, too."""
    if singly and isinstance(value, dict) and all(re.fullmatch(r"[\w-]+", str(key)) for key in value):
        for key, each in value.items():
            yield from (((str(key), *place), inner) for place, inner in _values(each, True))
    else:
        yield (), value


def marked_fields(model: type[BaseModel], around: tuple[type, ...] = ()) -> dict[str, Mark]:
    """Return the marked fields of a plugin's configuration by path, such as `folder` or `store.address`.

    `around`: the models in whose fields this one is. Of one that is in itself any text may be a path or an address.
    """
    found: dict[str, Mark] = {}
    for name, field in model.model_fields.items():
        keys = {name, *_names(field.alias), *_names(field.validation_alias)}
        marks = list(_marks((*field.metadata, field.annotation)))
        models = [] if marks else list(_inner_models(field.annotation))
        if any(each in (model, *around) for each in models):
            marks, models = [Mark(Outside.ARGUMENTS)], []
        inner: dict[str, Mark] = {}
        for each in models:
            # Of two models with a field of one name, the mark counts that may ask for permission.
            inner = {**inner, **marked_fields(each, (model, *around)), **_asking(inner)}
        for key in sorted(keys):
            found |= {key: marks[0]} if marks else {f"{key}.{below}": mark for below, mark in inner.items()}
    return found


def _asking(marks: dict[str, Mark]) -> dict[str, Mark]:
    return {key: mark for key, mark in marks.items() if mark.kind is not Outside.NOTHING}


def _names(alias: Any) -> list[str]:
    """Return the keys under which a field's value may be, or a value that it is taken from."""
    if isinstance(alias, str):
        return [alias]
    choices = getattr(alias, "choices", None)  # of pydantic's AliasChoices
    if choices is not None:
        return [name for choice in choices for name in _names(choice)]
    return [str(key) for key in getattr(alias, "path", ())[:1]]  # of its AliasPath


def _marks(within: Iterable[Any]) -> Iterator[Mark]:
    for each in within:
        if isinstance(each, Mark | Outside):
            yield each if isinstance(each, Mark) else Mark(each)
        else:
            yield from _marks((*getattr(each, "__metadata__", ()), *getattr(each, "__args__", ())))
            yield from _marks(filter(None, [getattr(each, "__value__", None)]))  # of a type alias


def _inner_models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that a field may hold, by its annotation; not those in lists and mappings."""
    if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        yield annotation
    elif get_origin(annotation) in (Union, UnionType, Annotated):
        for each in get_args(annotation):
            yield from _inner_models(each)
    elif hasattr(annotation, "__value__"):  # a type alias
        yield from _inner_models(annotation.__value__)


def reaches(raw: Raw, load: Loader) -> list[Reach]:
    """Return the marked values that a configuration sets."""
    return [each for part in _marked_parts(raw, load) for each in part.reaches()]


def elsewhere(raw: Raw, load: Loader, source: Path, agreed: Raw | None = None) -> list[Reach]:
    """Return marked values that refer to another machine, or leave the current folder and that of the file `source`.

    Values that `agreed`, the caller's own configuration, contains too are left out.
    """
    homes = (Path.cwd(), source.parent)
    away = [each for each in reaches(raw, load) if each.kind.is_elsewhere(each.value, homes)]
    return [each for each in away if agreed is None or _at(agreed, each.place) != each.value]


def assigned(raw: Raw, assignments: Assignments, load: Loader, source: Path, agreed: Raw | None = None) -> Raw:
    """Return the configuration in the file `source` with assignments applied.

    Raises:
        ConfigError: a value leads elsewhere, and neither an assignment nor `agreed` sets it.
    """
    result = assign(raw, assignments)
    check_said(result, [(raw, source)], assignments, load, agreed)
    return result


def check_said(
    result: Raw,
    untrusted: Sequence[tuple[Raw, Path]],
    assignments: Assignments,
    load: Loader,
    agreed: Raw | None = None,
) -> None:
    """Raise ConfigError if a value of an untrusted file in `result` leads elsewhere, and nobody else sets it.

    `untrusted` are the contents of files with their paths; `agreed` is what the caller's own files set. Which plugin a
    value is for may be said elsewhere than in its file, so the whole configuration is looked at.
    The error names all values, and the options that repeat them.
    """
    unsaid = [
        (each, source)
        for content, source in untrusted
        for each in elsewhere(result, load, source, agreed)
        if _at(content, each.place) is not None and not _is_set(each.place, assignments)
    ]
    if unsaid:
        first, *rest = [each.problem(source) for each, source in unsaid]
        further = [f"\n{each.where}: {problem}" for (each, _), problem in zip(unsaid[1:], rest, strict=True)]
        repeated = [f"--set {argument(f'{each.where}={each.text}')}" for each, _ in unsaid]
        hint = f"To allow it, repeat the value{'s' if rest else ''}: {' '.join(repeated)}"
        raise ConfigError(first + "".join(further), unsaid[0][0].where, hint)


def for_evaluation(
    raw: Raw, assignments: Assignments, load: Loader, source: Path, agreed: Raw | None = None
) -> tuple[Raw, list[str]]:
    """Return a saved configuration, to evaluate or to act, with assignments applied, and the parts left out of it.

    Left out are wrappers and callbacks that would write or connect, unless an assignment sets the field; a runner
    that would is replaced by `dev`.

    Raises:
        ConfigError: another part refers elsewhere, and neither an assignment nor `agreed` sets the value again.
    """
    result = assign(raw, assignments)
    skipped = [each for each in reaches(result, load) if _is_skipped(each.part, each.kind)]
    doubtful = [each for each in skipped if not _is_set(each.place, assignments)]
    result = without(result, doubtful)
    check_said(result, [(raw, source)], assignments, load, agreed)
    lost = {each.part for each in doubtful}
    left_out = {
        part.place: f"{'.'.join(part.place)} ({part.name})"
        for part in _marked_parts(result, load)
        if _is_left_out(part, part.place in lost, assignments)
    }
    result = without(result, left_out)
    return {"runner": {"name": "dev"}, **result}, list(left_out.values())


def without_missing(
    raw: Raw, assignments: Assignments, load: Loader, observers: Mapping[str, str]
) -> tuple[Raw, list[str]]:
    """Return a configuration without the observers that cannot be used here, and what was left out.

    Their plugin is missing, cannot be imported, or takes other parameters than it did.

    `observers` are the callbacks that only observe, by key, with their names. One that an assignment sets stays.
    """
    missing: dict[Place, str] = {}
    for kind, place, part in _parts(raw):
        name = part.get("name")
        if kind == "callback" and observers.get(place[1]) == name and not _is_set((*place, ""), assignments):
            try:
                load(kind, str(name)).Config.model_validate(part)
            except (MazeError, ValidationError):
                missing[place] = f"{'.'.join(place)} ({name})"
    return without(raw, missing), list(missing.values())


def _is_skipped(part: Place, kind: Outside) -> bool:
    """Return True if evaluation leaves a part out that has a value of this kind, rather than asking."""
    effects = (Outside.FOLDER, Outside.ADDRESS, Outside.CONNECTION)
    return kind in effects and len(part) <= 2 and part[0] in ("wrappers", "callbacks", "runner")


def _is_left_out(part: _Part, has_lost: bool, assignments: Assignments) -> bool:
    fields = [field for field, mark in part.marks.items() if _is_skipped(part.place, mark.kind)]
    if part.place == ("runner",):
        return bool(fields) and not any(path[:1] == part.place for path, _ in assignments)
    if not fields or any(_is_set((*part.place, *field.split(".")), assignments) for field in fields):
        return False
    # A field that the file leaves out has its default, which may be a folder to write to.
    return has_lost or not any(field.partition(".")[0] in part.values for field in fields)


def without(raw: Raw, taken: Iterable[Reach | Place]) -> Raw:
    """Return a copy without the values `taken`."""
    result = assign(raw, ())
    places = [each.place if isinstance(each, Reach) else each for each in taken]
    for place in sorted(places, key=lambda place: [int(key) if key.isdigit() else -1 for key in place], reverse=True):
        owner = _at(result, place[:-1])
        del owner[int(place[-1]) if isinstance(owner, list) else place[-1]]
    return result


def _marked_parts(raw: Raw, load: Loader) -> Iterator[_Part]:
    """Yield the parts with marked fields, and the plugins that such parts name."""
    pending = list(_parts(raw))
    for kind, place, part in pending:
        name = part.get("name")
        if not isinstance(name, str):
            continue
        try:
            marks = marked_fields(load(kind, name).Config)
        except MazeError:  # reported when the whole configuration is validated
            continue
        for field in (field for field, mark in marks.items() if mark.kind is Outside.PLUGIN):
            inner = _at(part, tuple(field.split(".")))
            pending += [("policy", (*place, *field.split(".")), inner)] if isinstance(inner, dict) else []
        if marks:
            yield _Part(place, name, part, marks)


def _parts(raw: Raw) -> Iterator[tuple[str, Place, dict[str, Any]]]:
    wrappers, callbacks = raw.get("wrappers"), raw.get("callbacks")
    found: list[tuple[str, Place, Any]] = [(part, (part,), raw.get(part)) for part in PARTS]
    found += [(place[-1], place, _at(raw, place)) for place in NAMED]
    if isinstance(wrappers, list):
        found += [("wrapper", ("wrappers", str(index)), each) for index, each in enumerate(wrappers)]
    if isinstance(callbacks, dict):
        named = {key: {"name": key, **each} for key, each in callbacks.items() if isinstance(each, dict)}
        found += [("callback", ("callbacks", key), each) for key, each in named.items()]
    return ((kind, place, part) for kind, place, part in found if isinstance(part, dict))


def _is_set(place: Place, assignments: Assignments) -> bool:
    found = [(path, value) for path, value in assignments if place[: len(path)] == path]
    # A mapping for a whole part is merged into what is there.
    return any(path[0] not in PARTS or len(path) > 1 or _at(value, place[1:]) is not None for path, value in found)


def _at(tree: Any, place: Place) -> Any:
    for key in place:
        if isinstance(tree, list):
            tree = tree[int(key)] if key.isdigit() and int(key) < len(tree) else None
        else:
            tree = tree.get(key) if isinstance(tree, dict) else None
    return tree
