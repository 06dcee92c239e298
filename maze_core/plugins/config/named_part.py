"""A plugin that a parameter of another one names, such as `model.memory`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.explain import combined, explain
from maze_core.plugins.config.restorable import unrestorable


def named_part(
    kind: str, given: Mapping[str, Any], where: str, shared: Mapping[str, Any]
) -> tuple[type[Any], PluginConfig]:
    """Return the class and the configuration of the plugin that a parameter names.

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
        raise combined(explain(error, model, where, values)) from error
    if lost := unrestorable(config, where):
        raise combined(lost)
    return plugin, config
