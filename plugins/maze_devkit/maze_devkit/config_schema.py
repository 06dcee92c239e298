"""`maze config schema`: the JSON Schema of configuration files, with the parameters of the installed plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from maze_core.base.errors import MazeError
from maze_core.cli import output
from maze_core.plugins import discovery
from maze_core.plugins.config.flags import json_schema
from maze_core.plugins.config.raw import PARTS
from maze_core.plugins.config.run import RunConfig

_DEFAULTS = {"env": "gymnasium", "model": "mlp", "runner": "dev"}
"""The plugins of a part that names none."""
Schema = dict[str, Any]


def schema(
    algorithm: Annotated[
        str | None, typer.Argument(metavar="[ALGORITHM]", help="The only algorithm.", show_default=False)
    ] = None,
    env_source: Annotated[str | None, typer.Option(metavar="NAME", help="The only env source plugin.")] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The only model plugin.")] = None,
    runner: Annotated[str | None, typer.Option(metavar="NAME", help="The only runner plugin.")] = None,
) -> None:
    """Print the JSON Schema of configuration files, with the parameters of all installed plugins.

    \b
    Examples:
      maze config schema > maze.schema.json
      maze config schema ppo > ppo.schema.json
    """
    given = {"algorithm": algorithm, "env": env_source, "model": model, "runner": runner}
    output.print_json(file_schema({kind: name for kind, name in given.items() if name is not None}))


def file_schema(only: Mapping[str, str] | None = None) -> Schema:
    """Return the JSON Schema of experiments, presets and other configuration files.

    Every key may be missing, and parts may have their short forms, such as `model: cnn`. Plugins that cannot be
    imported are left out.

    Args:
        only: by kind the one plugin that such a part may name; others may name every installed plugin.

    Raises:
        ConfigError: `only` names a plugin that is not installed.
    """
    schema = RunConfig.model_json_schema()
    definitions, properties = schema["$defs"], schema["properties"]
    for kind in PARTS:
        wanted = (only or {}).get(kind)
        names = _define(kind, [wanted] if wanted else None, definitions)
        properties[kind] = {"description": properties[kind]["description"], **_part(kind, names)}
    wrapper = {"anyOf": [{"type": "string"}, _mapping("wrapper", _define("wrapper", None, definitions))]}
    properties["wrappers"] = {"description": properties["wrappers"]["description"], "type": "array", "items": wrapper}
    callbacks = {name: _optional("callback", name) for name in _define("callback", None, definitions)}
    properties["callbacks"] = {
        "description": properties["callbacks"]["description"],
        "type": "object",
        "properties": callbacks,
        "additionalProperties": {"type": ["object", "null"]},
    }
    properties["preset"] = {"description": "The preset below this file: a name, auto or none.", "type": "string"}
    whole: Schema = _without_required({**schema, "title": "Configuration file of Maze"})
    return whole


def _define(kind: str, names: list[str] | None, definitions: Schema) -> list[str]:
    """Add the parameters of plugins to the definitions, and return the names of these plugins."""
    found = []
    for name in discovery.names(kind) if names is None else names:
        try:
            whole = json_schema(discovery.load(kind, name).Config, f"#/$defs/{kind}.{name}.{{model}}")
        except MazeError:
            if names is not None:
                raise
            continue
        for inner, definition in whole.pop("$defs", {}).items():
            definitions[f"{kind}.{name}.{inner}"] = definition
        definitions[f"{kind}.{name}"] = whole
        found.append(name)
    return found


def _part(kind: str, names: list[str]) -> Schema:
    short: Schema = {"type": "string"}  # the id of an environment
    if kind != "env":
        short["enum"] = names
    mapping = _mapping(kind, names)
    mapping["properties"]["name"]["enum"] = names
    return {"anyOf": [short, mapping]}


def _mapping(kind: str, names: list[str]) -> Schema:
    """Return the schema of a plugin's name with its parameters."""
    cases: list[Schema] = [
        {"if": {"required": ["name"], "properties": {"name": {"const": name}}}, "then": _reference(kind, name)}
        for name in names
    ]
    if _DEFAULTS.get(kind) in names:
        cases.append({"if": {"not": {"required": ["name"]}}, "then": _reference(kind, _DEFAULTS[kind])})
    name = {"type": "string", "description": f"The {kind}'s name."}
    return {"type": "object", "properties": {"name": name}, "allOf": cases}


def _optional(kind: str, name: str) -> Schema:
    return {"anyOf": [_reference(kind, name), {"type": "null"}]}


def _reference(kind: str, name: str) -> Schema:
    return {"$ref": f"#/$defs/{kind}.{name}"}


def _without_required(schema: Any, condition: bool = False) -> Any:
    """Return a schema without required keys, but for those of conditions."""
    if isinstance(schema, dict):
        return {
            key: _without_required(value, condition or key == "if")
            for key, value in schema.items()
            if condition or key != "required" or not isinstance(value, list)
        }
    return [_without_required(each, condition) for each in schema] if isinstance(schema, list) else schema
