"""Validates plain data as the configuration of a run: each part by the `Config` of the plugin that it names.

Refused is also a configuration that is not the same once it has been written to `config.yaml` and read again. Its run
could be trained, but neither resumed nor evaluated, or would go on with other values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from maze_core.base.errors import ConfigError, combined
from maze_core.base.terminal_text import printable, shown
from maze_core.plugins import discovery
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.raw import PARTS, Raw
from maze_core.plugins.config.run import RunConfig


class Validation:
    """Validates parts of a configuration, binds them to the plugin classes that `load` finds, and collects errors."""

    def __init__(self, load: discovery.Loader = discovery.load) -> None:
        self._load = load
        self.errors: list[ConfigError] = []

    def run(self, raw: Raw) -> RunConfig:
        """Return the configuration of a run: each part by the `Config` of the plugin it names, then the whole.

        Raises one ConfigError that lists every problem, one per line.
        """
        data = {key: value for key, value in raw.items() if key not in (*PARTS, "wrappers", "callbacks", "constraints")}
        for part in PARTS:
            if part in raw:
                data[part] = self.part(part, part, raw[part])
        data["wrappers"] = self.wrappers(raw.get("wrappers"))
        data["callbacks"] = self._callbacks(raw.get("callbacks"), raw.get("constraints"))
        reported = {str(error.where).partition(".")[0] for error in self.errors}
        try:
            config = RunConfig.model_validate(data)
        except ValidationError as error:
            # A part that is already reported is None here: pydantic's error about it would only confuse.
            rest = _explained(error, RunConfig, "", data)
            known = {f"{part}.{field}" for part in PARTS if data.get(part) for field in type(data[part]).model_fields}
            rest = [_with_path(each, known) for each in rest]
            self.errors += [each for each in rest if str(each.where).partition(".")[0] not in reported]
        if self.errors:
            raise combined(self.errors)
        return config

    def part(self, kind: str, where: str, raw: Any) -> PluginConfig | None:
        """Return the configuration of one plugin, or None after adding its problems to the errors."""
        if isinstance(raw, PluginConfig):
            return raw
        if not isinstance(raw, dict):
            self.errors.append(ConfigError(f"must be a mapping with the {kind}'s name and parameters", where))
            return None
        name = raw.get("name")
        if not isinstance(name, str) or not name:
            self.errors.append(ConfigError(f"must be the name of an installed {kind}", f"{where}.name"))
            return None
        try:
            plugin = self._load(kind, name)
        except ConfigError as error:
            self.errors.append(ConfigError(error.message, f"{where}.name", error.hint))
            return None
        model: type[PluginConfig] = plugin.Config
        try:
            read = partial(model.model_validate, context=self._load)
            config = read(raw)
            lost = unrestorable(config, where, read)
        except ConfigError as error:  # about a plugin that a parameter names
            lost = [error]
        except ValidationError as error:
            lost = _explained(error, model, where, raw)
        self.errors += lost
        return None if lost else config.bound_to(plugin, self._load)

    def wrappers(self, raw: Any) -> list[PluginConfig | None]:
        """Return the configurations of wrappers, or None for each with problems, which are added to the errors."""
        if raw is None:
            return []
        if not isinstance(raw, list | tuple):
            self.errors.append(ConfigError("must be a list of wrappers, the first innermost", "wrappers"))
            return []
        return [self.part("wrapper", f"wrappers.{i}", each) for i, each in enumerate(raw)]

    def _callbacks(self, raw: Any, limits: Any = None) -> dict[str, PluginConfig | None]:
        raw = {} if raw is None else raw
        if not isinstance(raw, dict):
            self.errors.append(ConfigError("must be a mapping from names to parameters", "callbacks"))
            return {}
        if limits:  # those of the callback `constraints`
            raw = {**raw, "constraints": {**(raw.get("constraints") or {}), "limits": limits}}
        return {key: self.part("callback", f"callbacks.{key}", value) for key, value in _named(raw)}


def named_part(
    kind: str, given: Mapping[str, Any], where: str, shared: Mapping[str, Any]
) -> tuple[type[Any], PluginConfig]:
    """Return the class and the configuration of the plugin that a parameter names, such as `model.memory`.

    Args:
        kind: of the plugin.
        given: its name and parameters.
        where: the path of the parameter.
        shared: values for those of its parameters that `given` does not set; others are ignored.

    Raises:
        ConfigError: there is no such plugin, or a parameter is wrong.
        PluginError: the plugin cannot be used.
    """
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"must be the name of an installed {kind}", f"{where}.name")
    try:
        plugin = discovery.load(kind, name)
    except ConfigError as error:
        raise ConfigError(error.message, where, error.hint) from error
    model: type[PluginConfig] = plugin.Config
    values = {key: value for key, value in shared.items() if key in model.model_fields} | dict(given)
    try:
        config = model.model_validate(values)
    except ValidationError as error:
        raise combined(_explained(error, model, where, values)) from error
    if lost := unrestorable(config, where, model.model_validate):
        raise combined(lost)
    return plugin, config


def _explained(error: ValidationError, model: type[BaseModel], where: str, data: object) -> list[ConfigError]:
    from maze_core.plugins.config.explain import explain

    return explain(error, model, where, data)


def _named(raw: Raw) -> Iterable[tuple[str, Any]]:
    """Yield callbacks with names filled in from the keys; null leaves one out."""
    for key, value in raw.items():
        if value is not None:
            yield key, {"name": key, **value} if isinstance(value, dict) else value


def _with_path(error: ConfigError, known: Container[str]) -> ConfigError:
    """Return the error about an unknown key with the path of what may be meant, where there is one."""
    from maze_core.plugins.config.peers import meant

    path = meant(str(error.where), known)
    return ConfigError(f"is {path} in Maze", error.where) if path and "unknown key" in str(error) else error


_HINT = (
    "Next: another value; or its plugin's author gives the parameter a type that a file keeps, such as str or float."
)

M = TypeVar("M", bound=BaseModel)
_UNWRITABLE = (ValueError, TypeError, RecursionError)


def unrestorable(config: M, where: str, read: Callable[[Any], M]) -> list[ConfigError]:
    """Return one error for each value that a file would not keep.

    `where` is the path of the configuration; `read` makes one of plain data.
    """
    try:
        written = _written(config)
    except _UNWRITABLE:
        return _unwritable(config, where)
    model = type(config)
    try:
        again = read(written)
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


def _differs(before: object, after: object) -> bool:
    """Return True for two values that their own type tells apart."""
    if type(before).__eq__ is object.__eq__:
        return False
    with suppress(ValueError):  # arrays have no single answer
        return bool(before != after)
    return False
