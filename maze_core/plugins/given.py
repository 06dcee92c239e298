"""Plugins around what is given from Python and no file can hold: a function, a class, a ready module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maze_core.config.base import PluginConfig
from maze_core.errors import ConfigError


@dataclass(frozen=True)
class Given:
    """Stands in for a plugin class in one run: builds the plugin from its configuration and what was given.

    It can be pickled if that can. See `given`.
    """

    plugin: Any
    Config: type[PluginConfig]
    source: Any

    def __call__(self, config: PluginConfig) -> Any:
        """The plugin."""
        return self.plugin(config, self.source)


def given(plugin: Any, source: Any) -> Given:
    """What `discovery.overlay` takes for a plugin class that is built with `(config, source)`."""
    return Given(plugin, plugin.Config, source)


def origin(source: Any) -> str:
    """Where a class or function was defined, as `module:name`; of another object, where its class was."""
    module = getattr(source, "__module__", type(source).__module__)
    return f"{module}:{getattr(source, '__qualname__', type(source).__qualname__)}"


def not_given(what: str, source: str, where: str, otherwise: str = "") -> ConfigError:
    """The error of a plugin that was built without its source, as when a recorded configuration is opened."""
    return ConfigError(
        f"this run's {what} was {source!r}, which a file cannot hold",
        where,
        f"Open the run from Python and give the {what} again{otherwise}.",
    )
