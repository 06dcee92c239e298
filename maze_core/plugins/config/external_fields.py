"""Configuration values that reach outside the run: folders to write to, addresses to connect to.

A plugin marks such a field in its `Config`:

    folder: Annotated[Path, Outside.FOLDER] = Path("recordings")
    address: Annotated[str | None, Outside.ADDRESS] = None
    mode: Annotated[Literal["offline", "online"], Outside.CONNECTION.but("offline")] = "offline"

A marked value in a file from someone else is used only if it stays within the current folder, the file's own and this
machine, or if the command line repeats it: see `permissions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

if TYPE_CHECKING:
    from pydantic import BaseModel


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
        if self in (Outside.NOTHING, Outside.PLUGIN):
            return False
        from maze_core.plugins.config.here import is_address_here, is_argument_here, is_folder_here, texts

        known = tuple(homes)
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
