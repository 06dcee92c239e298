"""Presets: partial run configurations that an algorithm's package ships in `presets/NAME.yaml`.

Those of one algorithm among several in a package are in `presets/ALGORITHM/NAME.yaml`.
"""

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
    own_last = reversed(files(algorithm, name))
    read = [(file.name.removesuffix(".yaml"), _read(file, name)) for file in own_last]
    return dict(sorted({title: layer for title, layer in read if layer is not None}.items()))


def choose(preset: str, env_id: str | None, algorithm: type[Any], name: str) -> tuple[str, Raw]:
    """Return name and content of the preset to apply, empty if there is none.

    `auto` takes the preset named like the environment, `none` takes none. Raises ConfigError for an
    unknown name.
    """
    if preset == "none":
        return "", {}
    wanted = (env_id or "").replace("/", "-") if preset == "auto" else preset
    for file in files(algorithm, name):
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


def files(algorithm: type[Any], name: str) -> list[Traversable]:
    """Return the files of the presets that may belong to an algorithm: its own first, then those of its package."""
    package = algorithm.__module__.partition(".")[0]
    try:
        folder = resources.files(package) / "presets"
        found = [folder / name, folder] if (folder / name).is_dir() else [folder]
        return [file for place in found for file in place.iterdir() if file.name.endswith(".yaml")]
    except (
        ImportError,
        TypeError,
        AttributeError,
        OSError,
    ):  # not in a package, or a package without presets
        return []
