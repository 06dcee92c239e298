"""Finds parameters that may lead outside the run and do not say so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, get_origin

from pydantic import BaseModel, JsonValue

from maze_core.plugins.config.external_fields import Outside, marked_fields
from maze_devkit.findings import Check, Failed
from maze_devkit.subject import Subject

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_PLACES = ("pydantic.networks", "ipaddress", "yarl", "httpx")
"""Modules whose types name a machine."""
_ANYTHING = (Any, object, JsonValue, dict, list, tuple, set)
"""Types whose values may hold any text; the last ones without arguments."""
_NOUN = (
    r"(path|dir|directory|directories|folder|file|filename|uri|url|address|addresse|addr|host|hostname|server|endpoint|"
    r"bucket|storage|store|database|db|dsn|broker|proxy|webhook|socket|destination|entity|account|workspace|registry)s?"
)
_NAMES = re.compile(rf"(.*[_\d])?{_NOUN}([_\d].*)?|\w*(dir|path|ur[il]|hostname)|(.*_)?(to|ip)", re.IGNORECASE)
_DESCRIPTION = re.compile(rf"((the|an?|its) )?(\w+ )?{_NOUN}\b", re.IGNORECASE)
_GOING = re.compile(r"(.*_)?(on_?line|remote|cloud|uploads?|publish|push|sync|stream)(_.*)?|share", re.IGNORECASE)
"""Settings with which something connects."""


def unmarked(model: type[BaseModel]) -> Iterator[str]:
    """Yield the parameters, by path, that may lead outside the run and have no mark of `Outside`."""
    marked = marked_fields(model)
    for name, field in model.model_fields.items():
        if name == "name" or name in marked:
            continue
        kinds = list(_kinds((*field.metadata, field.annotation)))
        if _may_lead_outside(name, field, kinds):
            yield name
        for inner in kinds:
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                # A mark below a list or a mapping is not found: there the mark of the whole is needed.
                reached = any(key.startswith(f"{name}.") for key in marked)
                yield from (f"{name}.{each}" for each in unmarked(inner))
                yield from () if reached else (f"{name}.{each}" for each in marked_fields(inner))


def _may_lead_outside(name: str, field: FieldInfo, kinds: list[Any]) -> bool:
    if any(kind in _ANYTHING for kind in kinds):
        return True
    classes = [kind for kind in kinds if isinstance(kind, type)]
    if any(issubclass(kind, PathLike) or kind.__module__.startswith(_PLACES) for kind in classes):
        return True
    words = re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", name)
    options = [str(option) for kind in kinds if get_origin(kind) is Literal for option in kind.__args__]
    if ((bool in classes or str in classes) and _GOING.fullmatch(words)) or any(map(_GOING.fullmatch, options)):
        return True
    return str in classes and bool(_NAMES.fullmatch(words) or _DESCRIPTION.match(field.description or ""))


def _kinds(annotations: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the types in annotations; those of keys are left out."""
    for each in annotations:
        origin, inner = get_origin(each), getattr(each, "__args__", ())
        if origin is Literal or not inner:
            yield each
        elif (isinstance(origin, type) and issubclass(origin, dict)) or getattr(origin, "__name__", "") == "Mapping":
            yield from _kinds(inner[1:])
        else:
            yield from _kinds(inner)
        if each is not JsonValue and hasattr(each, "__value__"):
            yield from _kinds((each.__value__,))


def _marked(subject: Subject) -> None:
    found = list(dict.fromkeys(unmarked(subject.model)))
    if found:
        known = ", ".join(f"Outside.{mark.name}" for mark in Outside)
        raise Failed(f"{subject.model.__name__} does not say whether {', '.join(found)} may lead outside ({known})")


CHECK = Check(
    "outside_marked",
    "Every parameter that may hold a path, an address, or any value, and every setting with which the plugin connects, "
    "has a mark of `maze_core.plugins.config.external_fields`.",
    "Someone else's run, or a preset in the current folder, could write elsewhere or send the user's data and token.",
    "Mark it: `Annotated[Path, Outside.FOLDER]`. Outside.NOTHING says that it only reads, or stays within the run. See "
    "docs/guide/authors.md.",
    _marked,
)
