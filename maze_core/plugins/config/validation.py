"""Validates plain data as the configuration of a run: each part by the `Config` of the plugin that it names."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from pydantic import ValidationError

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.explain import combined, explain
from maze_core.plugins.config.peers import meant
from maze_core.plugins.config.raw import PARTS, Raw
from maze_core.plugins.config.restorable import unrestorable
from maze_core.plugins.config.run import RunConfig


def resolve(raw: Raw, load: discovery.Loader = discovery.load) -> RunConfig:
    """Validate plain data: each part by the `Config` of the plugin it names, then the whole.

    Raises one ConfigError that lists every problem, one per line.
    """
    errors: list[ConfigError] = []
    data = {key: value for key, value in raw.items() if key not in (*PARTS, "wrappers", "callbacks")}
    for part in PARTS:
        if part in raw:
            data[part] = part_of(part, part, raw[part], load, errors)
    data["wrappers"] = wrappers_of(raw.get("wrappers"), load, errors)
    data["callbacks"] = _callbacks(raw.get("callbacks"), load, errors)
    reported = {str(error.where).partition(".")[0] for error in errors}
    try:
        config = RunConfig.model_validate(data)
    except ValidationError as error:
        # A part that is already reported is None here: pydantic's error about it would only confuse.
        rest = explain(error, RunConfig, "", data)
        known = {f"{part}.{field}" for part in PARTS if data.get(part) for field in type(data[part]).model_fields}
        rest = [_with_path(each, known) for each in rest]
        errors += [each for each in rest if str(each.where).partition(".")[0] not in reported]
    if errors:
        raise combined(errors)
    return config


def part_of(kind: str, where: str, raw: Any, load: discovery.Loader, errors: list[ConfigError]) -> PluginConfig | None:
    """Return the configuration of one plugin, or None after adding its problems to `errors`."""
    if isinstance(raw, PluginConfig):
        return raw
    if not isinstance(raw, dict):
        errors.append(ConfigError(f"must be a mapping with the {kind}'s name and parameters", where))
        return None
    name = raw.get("name")
    if not isinstance(name, str) or not name:
        errors.append(ConfigError(f"must be the name of an installed {kind}", f"{where}.name"))
        return None
    try:
        model: type[PluginConfig] = load(kind, name).Config
    except ConfigError as error:
        errors.append(ConfigError(error.message, f"{where}.name", error.hint))
        return None
    try:
        config = model.model_validate(raw)
        lost = unrestorable(config, where)
    except ConfigError as error:  # about a plugin that a parameter names
        lost = [error]
    except ValidationError as error:
        lost = explain(error, model, where, raw)
    errors += lost
    return None if lost else config


def wrappers_of(raw: Any, load: discovery.Loader, errors: list[ConfigError]) -> list[PluginConfig | None]:
    """Return the configurations of wrappers, or None for each with problems, which are added to `errors`."""
    if raw is None:
        return []
    if not isinstance(raw, list | tuple):
        errors.append(ConfigError("must be a list of wrappers, the first innermost", "wrappers"))
        return []
    return [part_of("wrapper", f"wrappers.{i}", each, load, errors) for i, each in enumerate(raw)]


def _callbacks(raw: Any, load: discovery.Loader, errors: list[ConfigError]) -> dict[str, PluginConfig | None]:
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        errors.append(ConfigError("must be a mapping from names to parameters", "callbacks"))
        return {}
    return {key: part_of("callback", f"callbacks.{key}", value, load, errors) for key, value in _named(raw)}


def _named(raw: Raw) -> Iterable[tuple[str, Any]]:
    """Yield callbacks with names filled in from the keys; null leaves one out."""
    for key, value in raw.items():
        if value is not None:
            yield key, {"name": key, **value} if isinstance(value, dict) else value


def _with_path(error: ConfigError, known: Container[str]) -> ConfigError:
    """Return the error about an unknown key with the path of what may be meant, where there is one."""
    path = meant(str(error.where), known)
    return ConfigError(f"is {path} in Maze", error.where) if path and "unknown key" in str(error) else error
