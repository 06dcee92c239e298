"""Raw configuration data: YAML files, `path=value` assignments, and how layers of them are merged.

Only plain data comes out of here: no YAML tag builds an object; names are looked up later, in the registry.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from maze_core.errors import ConfigError
from maze_core.files import read_bytes

Raw = dict[str, Any]
"""Plain data: dicts, lists, strings, numbers, booleans and None."""

PARTS = ("env", "model", "algorithm", "runner")
"""The keys of a run's configuration that each hold one plugin's parameters."""

_MAX_DEPTH = 40
_MAX_BYTES = 1_000_000

# YAML 1.2's scalars. PyYAML's own are those of 1.1, which reads 3e-4 as a string, no as False and 1:30 as 90.
_SCALARS = (
    ("tag:yaml.org,2002:null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("tag:yaml.org,2002:bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("tag:yaml.org,2002:int", r"^[-+]?(?:0|[1-9][0-9_]*)$", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"^[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.(?:inf|nan))$",
        "-+0123456789.",
    ),
)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 — PyYAML's class attribute, emptied

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key.value!r} is given twice", problem_mark=key.start_mark)
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _tag, _pattern, _first in _SCALARS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_tag, re.compile(_pattern), ["" if c == "\0" else c for c in _first])


def read_yaml(path: Path, *, links: bool = True) -> Raw:
    """The mapping in a YAML file. Raises ConfigError naming the file, and the line where there is one.

    `links`: whether the path may be a link, which it may where the user named it.
    """
    return parse_mapping(read_text(path, links=links), str(path))


def read_text(path: Path, *, links: bool = True) -> str:
    """The text of a YAML file, a regular one; arguments and errors as for `read_yaml`."""
    if links and path.exists() and not path.is_file():
        raise ConfigError("cannot be read: it is no regular file", str(path))
    try:
        return read_bytes(Path(os.path.realpath(path)) if links else path, _MAX_BYTES).decode()
    except FileNotFoundError:
        raise ConfigError("there is no such file", str(path)) from None
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"cannot be read: {reason}", str(path)) from error


def parse_mapping(text: str, source: str) -> Raw:
    """The mapping in a YAML text that came from `source`."""
    data = _parse(text, source)
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"must hold a mapping of configuration keys, not {_type(data)}", source)
    return data


def to_yaml(data: Raw) -> str:
    """Plain data as YAML, keys in the given order."""
    return str(yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=100))


def parse_assignment(text: str) -> tuple[tuple[str, ...], Any]:
    """The path and the value of `a.b.0.c=value`; the value is YAML."""
    path, equals, value = text.partition("=")
    keys = tuple(path.strip().split("."))
    if not equals or not all(keys):
        raise ConfigError(f"{text!r} is not of the form path=value, such as algorithm.lr=0.001")
    return keys, _parse(value, f"{path.strip()} in {text!r}")


def parse_value(text: str, source: str) -> Any:
    """The value of a YAML text that came from `source`."""
    return _parse(text, source)


def merge(base: Raw, layer: Mapping[str, Any]) -> Raw:
    """`base` with a layer over it: mappings merge key by key, everything else is replaced.

    A part whose `name` the layer changes is replaced whole: the old plugin's parameters mean nothing to it.
    """
    result = dict(base)
    for key, value in _spelled_out(layer).items():
        old = result.get(key)
        if key in PARTS and isinstance(old, dict) and isinstance(value, dict):
            same = "name" not in value or old.get("name") in (None, value["name"])
            old = old if same else {}
        result[key] = _deep(old, value)
    return result


def assign(base: Raw, assignments: Iterable[tuple[tuple[str, ...], Any]]) -> Raw:
    """`base` with values set at paths; a later one wins. Names of plugins are set before their parameters."""
    result: Raw = _copy(base)
    for path, value in sorted(assignments, key=lambda item: len(item[0]) + (item[0][-1] != "name")):
        if len(path) <= 2 and path[0] in PARTS and (len(path) == 1 or path[1] == "name"):
            result = merge(result, {path[0]: {"name": value} if len(path) == 2 else value})
        else:
            _set(result, path, _copy(value))
            result = _spelled_out(result)
    return result


def _deep(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, Mapping):
        return {**old, **{key: _deep(old.get(key), value) for key, value in new.items()}}
    return _copy(new)


def _spelled_out(layer: Mapping[str, Any]) -> Raw:
    """The short forms in full: `env: CartPole-v1` is an id, `model: cnn` a name, as are strings in a list."""
    result = dict(layer)
    for part in PARTS:
        if isinstance(result.get(part), str):
            result[part] = {"id" if part == "env" else "name": result[part]}
    if isinstance(result.get("wrappers"), list):
        result["wrappers"] = [{"name": w} if isinstance(w, str) else w for w in result["wrappers"]]
    return result


def _set(tree: Any, path: tuple[str, ...], value: Any) -> None:
    where = ".".join(path)
    for position, key in enumerate(path):
        last = position == len(path) - 1
        if isinstance(tree, list):
            index = int(key) if key.isdigit() else -1
            if not 0 <= index <= len(tree) - (not last):
                raise ConfigError(f"{key!r} is no position in a list of {len(tree)}", where)
            tree[index:] = [*([value] if last else tree[index : index + 1]), *tree[index + 1 :]]
            tree = tree[index]
        elif isinstance(tree, dict):
            if last:
                tree[key] = value
            elif tree.get(key) is None:
                tree[key] = [] if path[position + 1] == "0" and key == "wrappers" else {}
            tree = tree[key]
        else:
            raise ConfigError(f"{'.'.join(path[:position])} is {_type(tree)} and has no {key!r}", where)


def _parse(text: str, source: str) -> Any:
    try:
        data = yaml.load(text, _Loader)  # noqa: S506 — a SafeLoader
        _check_plain(data)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"not valid YAML{line}: {error.problem}", source) from error
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"not valid YAML: {text}", source) from error
    return data


def _check_plain(data: Any, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        raise ValueError(f"nested deeper than {_MAX_DEPTH} levels, or an alias to itself")
    if isinstance(data, dict):
        for key, value in data.items():
            if not isinstance(key, str):
                raise ValueError(f"keys must be strings; quote {key!r}")
            _check_plain(value, depth + 1)
    elif isinstance(data, list):
        for value in data:
            _check_plain(value, depth + 1)
    elif data is not None and not isinstance(data, str | int | float):
        raise ValueError(f"{_type(data)} is no configuration value")


def _copy(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _copy(value) for key, value in data.items()}
    return [_copy(value) for value in data] if isinstance(data, list | tuple) else data


def _type(data: object) -> str:
    known = {dict: "a mapping", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return known.get(type(data), type(data).__name__)
