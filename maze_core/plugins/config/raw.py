"""Raw configuration data: parses `path=value` assignments and merges layers of plain data.

The results are plain data; plugin names are looked up later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from maze_core.base.errors import ConfigError
from maze_core.base.terminal_text import printable, shown
from maze_core.plugins.config.plain_yaml import kind_of, parse_value
from maze_core.plugins.discovery import KINDS

Raw = dict[str, Any]
"""Plain data: dicts, lists, strings, numbers, booleans and None."""
Assignment = tuple[tuple[str, ...], Any]
"""A path, key by key, and the value that it gets."""

NAMED = (("model", "memory"), ("model", "distribution"))
"""Places of a part's parameters that each name a plugin too, of the kind that the last key says."""
PARTS = ("env", "model", "algorithm", "runner")
"""The keys of a run's configuration that each hold one plugin's parameters."""


def parse_assignment(text: str) -> Assignment:
    """Return path and value of `a.b.0.c=value`; the value is YAML."""
    path, equals, value = text.partition("=")
    keys = tuple(path.strip().split("."))
    if not equals or not all(keys):
        raise ConfigError(f"{text!r:.80} is not of the form path=value, such as algorithm.lr=0.001")
    return keys, parse_value(value, f"{path.strip()} in {text!r:.80}")


def assignments_of(values: Mapping[str, Any]) -> list[Assignment]:
    """Return values by dotted path as assignments."""
    return [(tuple(path.split(".")), value) for path, value in values.items()]


def merge(base: Raw, layer: Mapping[str, Any]) -> Raw:
    """Return `base` with a layer merged over it: mappings merge key by key, everything else is replaced.

    If the layer changes the `name` of a part, the whole part is replaced: the old plugin's parameters do not apply.

    Raises:
        ConfigError: a mapping would replace a number or a list, which would be lost without a word.
    """
    result = dict(base)
    for key, value in _spelled_out(layer).items():
        result[key] = _deep(result.get(key), value, key)
    return result


def assign(base: Raw, assignments: Iterable[Assignment]) -> Raw:
    """Return `base` with values set at paths; later ones win. Plugin names are set before their parameters."""
    result: Raw = _copy(base)
    for path, value in sorted(assignments, key=lambda item: len(item[0]) + (item[0][-1] != "name")):
        if len(path) <= 2 and path[0] in PARTS and (len(path) == 1 or path[1] == "name"):
            result = merge(result, {path[0]: {"name": value} if len(path) == 2 else value})
        else:
            _set(result, path, _copy(value))
            result = _spelled_out(result)
    return result


def check_set_once(overrides: Iterable[Assignment], flags: Iterable[Assignment]) -> None:
    """Raise ConfigError if `path=value` texts and flags give a place two values: neither is the later one."""
    known = dict(_places(overrides))
    for path, value in _places(flags):
        if path in known and known[path] != value:
            both = f"{printable(repr(known[path]), 80)} and to {printable(repr(value), 80)}"
            raise ConfigError(f"is set twice, to {both}", ".".join(path), "Next: leave one of them out.")


def _places(assignments: Iterable[Assignment]) -> Iterator[Assignment]:
    """Yield the values of assignments by the whole paths of what they set, with short forms expanded."""
    for path, value in assignments:
        spelled = _spelled_out({path[0]: value})[path[0]] if len(path) == 1 else value
        if isinstance(spelled, Mapping) and spelled:
            yield from _places(((*path, str(key)), each) for key, each in spelled.items())
        else:
            yield path, spelled


def beginning_at(old: Any, new: Any) -> Any:
    """Return what describes a schedule, which begins at the number that it replaces, or where the old one began."""
    begins = old.get("from") if isinstance(old, Mapping) else old
    if not isinstance(new, Mapping) or ":" in str(new.get("schedule", ":")) or not isinstance(begins, int | float):
        return new
    return {"from": begins, **new}


def name_of(part: Any) -> str:
    """Return the name of a plugin that is named alone or with parameters; empty for anything else."""
    name = part.get("name") if isinstance(part, Mapping) else part
    return name if isinstance(name, str) else ""


def _deep(old: Any, new: Any, where: str) -> Any:
    if where.startswith("algorithm.") and isinstance(new, Mapping) and "schedule" in new:
        return _copy(beginning_at(old, new))
    if not isinstance(new, Mapping) or isinstance(old, str | None):  # a name may become one with parameters
        return _copy(new)
    if isinstance(old, bool | int | float | list | tuple):
        raise ConfigError(f"must be a mapping, got {shown(old)}", where)
    if "name" in new and isinstance(old, dict) and not isinstance(old.get("name"), str | None):
        raise ConfigError(f"must be a name, got {shown(old['name'])}", f"{where}.name")
    if isinstance(old, dict) and not _renames(old, new):
        return {**old, **{key: _deep(old.get(key), value, f"{where}.{key}") for key, value in new.items()}}
    return _copy(new)


def _renames(old: Raw, new: Mapping[str, Any]) -> bool:
    """Return True if two mappings name different plugins: the parameters of the old one do not apply."""
    return "name" in old and "name" in new and old["name"] != new["name"]


def _spelled_out(layer: Mapping[str, Any]) -> Raw:
    """Expand short forms: `env: CartPole-v1` is an id, `model: cnn` a name, and so are wrappers in a list."""
    result = dict(layer)
    for part in PARTS:
        if isinstance(result.get(part), str):
            result[part] = {"id" if part == "env" else "name": result[part]}
    wrappers = result.get("wrappers")
    if isinstance(wrappers, list):
        result["wrappers"] = [spelled_out_wrapper(each) for each in wrappers]
    elif not isinstance(wrappers, tuple | None):  # a later list would replace it
        raise ConfigError(f"must be a list of wrappers, the first innermost, got {shown(wrappers)}", "wrappers")
    return result


def spelled_out_wrapper(wrapper: Any) -> Any:
    """Expand a wrapper: a string is a name, `module:Class` is the id of the wrapper `gymnasium`."""
    result = {"name": wrapper} if isinstance(wrapper, str) else wrapper
    if isinstance(result, dict) and ":" in str(result.get("name", "")):
        return {"id": result["name"], **result, "name": "gymnasium"}
    return result


def _set(tree: Any, path: tuple[str, ...], value: Any) -> None:
    where = ".".join(path)
    for position, key in enumerate(path):
        last = position == len(path) - 1
        if isinstance(tree, list):
            index = int(key) if key.isdigit() else -1
            if not 0 <= index <= len(tree) - (not last):
                raise ConfigError(f"{key!r} is not an index of a list of length {len(tree)}", where)
            tree[index:] = [*([value] if last else tree[index : index + 1]), *tree[index + 1 :]]
            tree = tree[index]
        elif isinstance(tree, dict):
            if last:
                tree[key] = beginning_at(tree.get(key), value) if path[0] == "algorithm" else value
            elif isinstance(tree.get(key), str) and key in KINDS:  # the name of a plugin that a parameter names
                tree[key] = {"name": tree[key]}
            elif tree.get(key) is None:
                tree[key] = [] if path[position + 1] == "0" and key == "wrappers" else {}
            tree = tree[key]
        else:
            raise ConfigError(f"{'.'.join(path[:position])} is {kind_of(tree)} and has no {key!r}", where)


def _copy(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _copy(value) for key, value in data.items()}
    return [_copy(value) for value in data] if isinstance(data, list | tuple) else data
