"""Presets: partial run configurations that an algorithm's package ships in `presets/NAME.yaml`."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from maze_core.config.explain import nearest
from maze_core.config.plain_yaml import parse_mapping
from maze_core.config.raw import Raw
from maze_core.errors import ConfigError


def presets(algorithm: type[Any], name: str) -> dict[str, Raw]:
    """Return the presets of an algorithm by name: those in its package that do not name another algorithm."""
    read = {file.name.removesuffix(".yaml"): _read(file, name) for file in _files(algorithm)}
    return {title: layer for title, layer in sorted(read.items()) if layer is not None}


def choose(preset: str, env_id: str | None, algorithm: type[Any], name: str) -> tuple[str, Raw]:
    """Return name and content of the preset to apply, empty if there is none.

    `auto` takes the preset named like the environment, `none` takes none. Raises ConfigError for an
    unknown name.
    """
    if preset == "none":
        return "", {}
    wanted = (env_id or "").replace("/", "-") if preset == "auto" else preset
    for file in _files(algorithm):
        layer = _read(file, name) if file.name == f"{wanted}.yaml" else None
        if layer is not None:
            return wanted, layer
    if preset == "auto":
        return "", {}
    raise ConfigError(f"{name} has no preset {preset!r}; {nearest(preset, presets(algorithm, name))}", "preset")


def _read(file: Traversable, name: str) -> Raw | None:
    """Return the content of a preset, or None if it belongs to another algorithm."""
    layer = parse_mapping(file.read_text(encoding="utf-8"), f"preset {file.name}")
    part = layer.get("algorithm")
    owner = part.get("name", name) if isinstance(part, dict) else part or name
    return layer if owner == name else None


def _files(algorithm: type[Any]) -> list[Traversable]:
    package = algorithm.__module__.partition(".")[0]
    try:
        folder = resources.files(package) / "presets"
        return [file for file in folder.iterdir() if file.name.endswith(".yaml")]
    except (
        ImportError,
        TypeError,
        AttributeError,
        OSError,
    ):  # not in a package, or a package without presets
        return []
