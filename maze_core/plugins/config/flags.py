"""Command-line flags of a configuration model: one per field, with the field's own description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticUserError
from pydantic.json_schema import DEFAULT_REF_TEMPLATE, GenerateJsonSchema

from maze_core.base.errors import PluginError
from maze_core.plugins.config.plain_yaml import given_value, parse_value

_RANGES = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
_TYPES = {"integer": "INT", "number": "FLOAT", "string": "TEXT", "boolean": "BOOL", "array": "LIST", "object": "YAML"}


@dataclass(frozen=True)
class Flag:
    """One field as a flag: `--x/--no-x` for a plain boolean, otherwise `--x TEXT` for `parse`."""

    field: str
    option: str
    metavar: str
    description: str
    default: str
    """The default as a user would type it; empty where the field is required."""
    limits: str
    """The range, such as `> 0, <= 1`."""
    boolean: bool
    optional: bool
    textual: bool
    sequence: bool

    @property
    def help(self) -> str:
        """Description, range and default as one text."""
        notes = [self.limits, f"default: {self.default}" if self.default else "required"]
        return f"{self.description} [{'; '.join(filter(None, notes))}]".strip()

    def parse(self, text: str) -> Any:
        """Return the value of a text: `none` if the field allows it, lists with commas or as YAML, numbers as YAML."""
        if self.optional and text.lower() == "none":
            return None
        if self.sequence and not text.lstrip().startswith("["):
            return [parse_value(item, self.option) for item in text.split(",") if item.strip()]
        return text if self.textual else given_value(text, self.option)


class _Quiet(GenerateJsonSchema):
    """Leaves defaults out that JSON does not have; a run that uses one is refused where it is set up."""

    ignored_warning_kinds = GenerateJsonSchema.ignored_warning_kinds | {"non-serializable-default"}


def json_schema(model: type[BaseModel], references: str = DEFAULT_REF_TEMPLATE) -> dict[str, Any]:
    """Return the JSON Schema of a configuration.

    Raises:
        PluginError: a parameter has a type that no file can hold.
    """
    try:
        return model.model_json_schema(ref_template=references, schema_generator=_Quiet)
    except PydanticUserError as error:
        reason = str(error).partition("\n")[0]
        raise PluginError(
            f"{model.__name__} of {model.__module__} has a parameter that no file can hold: {reason}"
        ) from error


def flags(model: type[BaseModel]) -> list[Flag]:
    """Return the flags of a model in the order of its fields, except the plugin's `name`."""
    whole = json_schema(model)
    definitions = whole.get("$defs", {})
    schema = _resolved(whole, definitions)  # a model that has itself in a field is a reference
    return [
        _flag(name, properties, definitions, required=name in schema.get("required", ()))
        for name, properties in schema["properties"].items()
        if name != "name"
    ]


def _flag(name: str, schema: dict[str, Any], definitions: dict[str, Any], required: bool) -> Flag:
    branches = [_resolved(branch, definitions) for branch in schema.get("anyOf", [schema])]
    types = {branch.get("type", "choice" if _choices(branch) else "object") for branch in branches}
    values = types - {"null"}
    choices = [choice for branch in branches for choice in _choices(branch)]
    option = "--" + name.replace("_", "-")
    boolean = types == {"boolean"}
    return Flag(
        field=name,
        option=f"{option}/--no-{option[2:]}" if boolean else option,
        metavar=_metavar(values, choices),
        description=" ".join(schema.get("description", "").split()),
        default="" if required else _typed(schema.get("default")),
        limits=", ".join(
            f"{sign} {branch[key]:g}" for branch in branches for key, sign in _RANGES.items() if key in branch
        ),
        boolean=boolean,
        optional="null" in types and "none" not in choices,
        textual=values <= {"string", "choice"},
        sequence=values == {"array"},
    )


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref", "").rpartition("/")[2]
    return {**definitions.get(reference, {}), **schema} if reference else schema


def _choices(branch: dict[str, Any]) -> list[Any]:
    return list(branch.get("enum", [branch["const"]] if "const" in branch else []))


def _metavar(types: set[str], choices: list[Any]) -> str:
    others = [_TYPES[kind] for kind in sorted(types) if kind in _TYPES and not (choices and kind == "string")]
    return "|".join([*map(str, choices), *others])


def _typed(default: Any) -> str:
    """Return a default as the command line takes it."""
    if default is None:
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, dict):
        return f"{{{', '.join(f'{key}: {_typed(value)}' for key, value in default.items())}}}"
    if isinstance(default, list) and not any(isinstance(item, list | dict) for item in default):
        return ",".join(map(_typed, default)) or "[]"
    if isinstance(default, float) and float(f"{default:g}") == default:
        return f"{default:g}"
    return str(default) if not isinstance(default, int) or abs(default) < 2**64 else "too large"
