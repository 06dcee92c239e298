"""What errors call a setting of an algorithm: an algorithm of others may have it under another name, or not at all."""

from __future__ import annotations

from maze_core.plugins.config.base import PluginConfig


def setting(algorithm: PluginConfig, name: str) -> str:
    """Return the path of a setting that bundled algorithms call `name`; of an algorithm without it: `algorithm`."""
    return f"algorithm.{name}" if hasattr(algorithm, name) else "algorithm"
