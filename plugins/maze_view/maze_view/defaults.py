"""Where a run's configuration differs from the defaults of its plugins."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from maze_core import PluginConfig
from maze_core.plugins.config.assembly import DEFAULTS, load_run_config
from maze_view.plain import text

Change = tuple[str, str, str]
"""A path, its value and its default, as texts."""


def changes(config: Mapping[str, Any]) -> list[Change]:
    """Return the values that differ from the defaults.

    Raises:
        MazeError: a plugin is missing, or a value does not fit it.
    """
    return list(_changes(load_run_config(config), ""))


def _changes(model: BaseModel, prefix: str) -> Iterator[Change]:
    for name, field in type(model).model_fields.items():
        path, value = f"{prefix}{name}", getattr(model, name)
        default = field.get_default(call_default_factory=True)
        if name == "name" and isinstance(model, PluginConfig):
            default = _plugin(prefix.rstrip("."))
        members = _members(value)
        if isinstance(value, PluginConfig) or (isinstance(value, BaseModel) and type(default) is type(value)):
            yield from _changes(value, f"{path}.")
        elif any(isinstance(each, PluginConfig) for each in members.values()):
            for key, each in members.items():
                yield from _changes(each, f"{path}.{key}.")
        elif value != default:
            yield path, _text(value), "required" if default is PydanticUndefined else _text(default)


def _members(value: Any) -> dict[str, Any]:
    """Return the members of a mapping or a sequence by their keys; empty for other values."""
    if isinstance(value, dict):
        return value
    return {str(at): each for at, each in enumerate(value)} if isinstance(value, tuple) else {}


def _plugin(part: str) -> Any:
    """Return the name of the plugin that a part, such as `model` or `callbacks.console`, has by default."""
    kind, _, key = part.partition(".")
    default = DEFAULTS.get(kind, {})
    return (key if key in default else None) if key else default.get("name", PydanticUndefined)


def _text(value: Any) -> str:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return text(json.dumps(value, default=str) if isinstance(value, dict | list | tuple) else value)
