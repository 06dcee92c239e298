"""Whether a configuration is the same once it has been written to `config.yaml` and read again.

A run whose configuration is not could be trained, but neither resumed nor evaluated, or would go on with other values.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, ValidationError

from maze_core.base.errors import ConfigError
from maze_core.base.terminal_text import printable, shown
from maze_core.plugins import discovery
from maze_core.plugins.discovery import Loader

_HINT = (
    "Next: another value; or its plugin's author gives the parameter a type that a file keeps, such as str or float."
)

_UNWRITABLE = (ValueError, TypeError, RecursionError)


def unrestorable(config: BaseModel, where: str, load: Loader = discovery.load) -> list[ConfigError]:
    """Return one error for each value that a file would not keep.

    `where` is the path of the configuration; `load` finds the classes that it names.
    """
    try:
        written = _written(config)
    except _UNWRITABLE:
        return _unwritable(config, where)
    return _changed(config, written, where, load)


def _written(config: BaseModel, names: set[str] | None = None) -> dict[str, Any]:
    data = config.model_dump(mode="json", include=names)
    read: dict[str, Any] = json.loads(json.dumps(data, ensure_ascii=False).encode())
    return read


def _unwritable(config: BaseModel, where: str) -> list[ConfigError]:
    errors = []
    for name in [*type(config).model_fields, *type(config).model_computed_fields]:
        try:
            _written(config, {name})
        except _UNWRITABLE as error:
            reason = printable(" ".join(str(error).split()), 200)
            errors.append(ConfigError(f"cannot be written to config.yaml: {reason}", f"{where}.{name}", _HINT))
    return errors


def _changed(config: BaseModel, written: dict[str, Any], where: str, load: Loader) -> list[ConfigError]:
    model = type(config)
    try:
        again = model.model_validate(written, context=load)
    except ValidationError as error:
        from maze_core.plugins.config.explain import explain

        return [
            ConfigError(f"is written to config.yaml, but cannot be read from there: {each.message}", each.where, _HINT)
            for each in explain(error, model, where, written)
        ]
    pairs = {name: (getattr(config, name), getattr(again, name)) for name in model.model_fields}
    return [
        ConfigError(
            f"written to config.yaml and read again, {shown(before)} is {shown(after)}", f"{where}.{name}", _HINT
        )
        for name, (before, after) in pairs.items()
        if _differs(before, after)
    ]


def _differs(before: object, after: object) -> bool:
    """Return True for two values that their own type tells apart."""
    if type(before).__eq__ is object.__eq__:
        return False
    with suppress(ValueError):  # arrays have no single answer
        return bool(before != after)
    return False
