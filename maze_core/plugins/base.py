"""The base class of plugins that act through hooks: env sources, wrappers, models, callbacks."""

from __future__ import annotations

from typing import Any, ClassVar

from maze_core.plugins.config.base import PluginConfig


class Plugin:
    """A plugin: a class with a `Config` and some `@hookimpl` methods. It is built once per run and process."""

    Config: ClassVar[type[PluginConfig]] = PluginConfig

    def __init__(self, config: Any) -> None:
        self.config = config
