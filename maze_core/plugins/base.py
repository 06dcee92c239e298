"""The base class of plugins that act through hooks, and plugins made of Python objects that YAML cannot store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from maze_core.base.errors import ConfigError
from maze_core.plugins.config.base import PluginConfig


class Plugin:
    """A plugin: a class with a `Config` and some `@hookimpl` methods. It is built once per run and process."""

    Config: ClassVar[type[PluginConfig]] = PluginConfig

    def __init__(self, config: Any) -> None:
        self.config = config


@dataclass(frozen=True)
class Given:
    """Replaces a plugin class in one run: builds the plugin from its configuration and the given object.

    It can be pickled if the object can. See `given`.
    """

    plugin: Any
    Config: type[PluginConfig]
    source: Any

    def __call__(self, config: PluginConfig) -> Any:
        """Return the plugin."""
        return self.plugin(config, self.source)


def given(plugin: Any, source: Any) -> Given:
    """Return an entry for `discovery.overlay` whose plugin class is built with `(config, source)`."""
    return Given(plugin, plugin.Config, source)


def origin(source: Any) -> str:
    """Return where a class or function is defined, as `module:name`; for other objects, where their class is."""
    module = getattr(source, "__module__", type(source).__module__)
    return f"{module}:{getattr(source, '__qualname__', type(source).__qualname__)}"


def not_given(what: str, source: str, where: str, otherwise: str = "") -> ConfigError:
    """Return the error for a plugin built without its object, as from a saved configuration."""
    return ConfigError(
        f"this run's {what} was {source!r}, which cannot be saved in a file",
        where,
        f"Open the run from Python and pass the {what} again{otherwise}.",
    )
