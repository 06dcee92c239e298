"""Plain messages about wrong values, with full paths and the nearest known keys, and what to do instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from maze_core.base.errors import ConfigError
from maze_core.base.terminal_text import first_sentence, shown
from maze_core.plugins.config.peers import PEERS, bare

_WORDS = (
    ("Input should be a valid integer", "must be a whole number"),
    ("Input should be a valid number", "must be a number"),
    ("Input should be a valid boolean", "must be true or false"),
    ("Input should be a valid string", "must be a string"),
    ("Input should be a valid dictionary", "must be a mapping"),
    ("Input should be a valid list", "must be a list"),
    ("Input should be a valid tuple", "must be a list"),
    ("Input should be a valid ", "must be a "),
    ("Input should be ", "must be "),
    ("Input should have ", "must have "),
    ("Tuple should have ", "must have "),
    ("List should have ", "must have "),
    ("Unable to parse input string as an integer, exceeded maximum size", "must be a number that fits into 64 bits"),
    ("input was not a valid JSON value", "must be a number, a text, a list or a mapping"),
    ("Value error, ", ""),
    ("Assertion failed, ", ""),
)

_LISTED = 80
# Names that a message lists, at most.

_WAYS = {
    "env": "returns the environment: def make() -> gymnasium.Env in my_envs.py, then --env my_envs:make, or from "
    "Python RunContext(make, …)",
    "wrappers": "wraps the environment: def wrap(env): … in my_envs.py, then --wrappers my_envs:wrap",
}
# What a function of the user's own does, for arguments that no configuration can say.


def explain(error: ValidationError, model: type[BaseModel], prefix: str, data: object) -> list[ConfigError]:
    """Return one ConfigError per wrong value; `data` is the input of `model`, `prefix` its path."""
    found: dict[tuple[str, bool], list[str]] = {}
    objects: set[str] = set()
    for problem in error.errors():
        path = _path(problem["loc"], data, problem["type"] in ("missing", "extra_forbidden"))
        where = ".".join([prefix, *map(str, path)] if prefix else map(str, path))
        unknown = problem["type"] == "extra_forbidden"
        if problem["type"] == "invalid-json-value":
            objects.add(where)
        texts = found.setdefault((where, unknown), [])
        text = _sentence(problem["type"], problem["msg"], path, model)
        if text not in texts:
            texts.append(text)
    return [
        ConfigError(
            _alternatives(texts) + _got(texts, where, prefix, data),
            where or None,
            in_code(where) if where in objects else None,
        )
        for (where, _), texts in found.items()
    ]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a clause that suggests the known names nearest to `name`, or lists them all if they are few."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(near)}?"
    if len(known) > _LISTED:
        return f"none of the {len(known)} known ones is like it"
    return f"known: {', '.join(known)}" if known else "there are none"


def _instead(name: str, known: Iterable[str]) -> str:
    """Return a clause that says what Maze calls a parameter of another library, or else the nearest names."""
    ours = PEERS.get(bare(name), "").rpartition(".")[2]
    return f"in Maze it is {ours}" if ours in known else nearest(name, known)


def in_code(place: str) -> str | None:
    """Return what to do where an argument is more than text can say; `place`: the setting, such as `env.kwargs.df`."""
    way = _WAYS.get(place.partition(".")[0])
    return None if way is None else f"A table, a function or another object takes a function of your own that {way}"


def left_out(error: TypeError) -> str | None:
    """Return what to do about an environment's constructor that misses arguments; None: it misses none."""
    told = re.search(r"missing .*arguments?: (.*)", str(error))
    names = re.findall(r"'(\w+)'", told[1]) if told else []
    given = " ".join(f"--set env.kwargs.{name}=…" for name in names)
    return f"Next: {given}\n{in_code('env')}" if names else None


def _sentence(kind: str, message: str, path: Sequence[Any], model: type[BaseModel]) -> str:
    if kind == "extra_forbidden":
        owner = model_at(model, path[:-1])
        known = [field.alias or name for name, field in owner.model_fields.items()] if owner else []
        return f"unknown key; {_instead(str(path[-1])[:100], known)}"
    if kind == "missing":
        owner = model_at(model, path[:-1])
        field = owner.model_fields.get(str(path[-1])) if owner else None
        about = f" ({first_sentence(field.description).rstrip('.')})" if field and field.description else ""
        return f"is required{about}"
    for start, plain in _WORDS:
        if message.startswith(start):
            message = plain + message[len(start) :]
            break
    return message.partition(", unable to")[0].partition(", got a number with")[0]


def model_at(model: type[BaseModel], path: Sequence[Any]) -> type[BaseModel] | None:
    """Return the model of the value at a path below `model`, or None if there is none."""
    for key in path:
        if isinstance(key, int):
            continue
        field = model.model_fields.get(str(key))
        inner = _inner_model(field.annotation) if field else None
        if inner is None:
            return None
        model = inner
    return model


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_inner_model, get_args(annotation))), None)


def _path(loc: Sequence[Any], data: object, whole: bool) -> tuple[Any, ...]:
    """Return the part of pydantic's location that is a path in the data; the rest names branches of a union."""
    if whole:
        return tuple(loc)
    path: list[Any] = []
    for key in loc:
        try:
            data = data[key]  # type: ignore[index]
        except (LookupError, TypeError):
            break
        path.append(key)
    # A wrong default is not in the data; its field is still the right path.
    return tuple(path) if path or not loc else tuple(loc[:1])


def _alternatives(texts: Sequence[str]) -> str:
    first, *others = texts
    return " or ".join([first, *(text.removeprefix("must ") for text in others)])


def _got(texts: Sequence[str], where: str, prefix: str, data: object) -> str:
    if not all(text.startswith("must ") for text in texts):
        return ""
    for key in filter(None, where.removeprefix(prefix).split(".")):
        if isinstance(data, list | tuple) and key.isdigit() and int(key) < len(data):
            data = data[int(key)]
        elif isinstance(data, dict) and key in data:
            data = data[key]
        else:
            return ""
    return f", got {'null' if data is None else shown(data)}"
