"""Presets: partial run configurations that a package ships in `presets/NAME.yaml`.

Those in an algorithm's package are for this algorithm, unless they name another one; those of one algorithm among
several in a package are in `presets/ALGORITHM/NAME.yaml`. Those in the package of an env source name their algorithm.
"""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from maze_core.config.explain import nearest
from maze_core.config.plain_yaml import parse_mapping
from maze_core.config.raw import Raw
from maze_core.errors import ConfigError


def presets(algorithm: type[Any], name: str, source: type[Any] | None = None) -> dict[str, Raw]:
    """Return the presets for an algorithm by name: those of its package, and those of an env source's package."""
    own_last = reversed(_shipped(algorithm, name, source))
    read = {_title(file): layer for file, default in own_last if (layer := _read(file, name, default)) is not None}
    return dict(sorted(read.items()))


def presets_of_source(source: type[Any]) -> dict[str, str]:
    """Return the names of the presets in an env source's package, each with the algorithm that it is for."""
    owners = {_title(file): _owner(_content(file), "") for file in files(source)}
    return {title: owner for title, owner in sorted(owners.items()) if owner}


def choose(
    preset: str, env_id: str | None, algorithm: type[Any], name: str, source: type[Any] | None = None
) -> tuple[str, Raw]:
    """Return name and content of the preset to apply, empty if there is none.

    `auto` takes the preset named like the environment, `none` takes none. Presets are those of the algorithm and those
    of the env source `source`. Raises ConfigError for an unknown name.
    """
    if preset == "none":
        return "", {}
    wanted = (env_id or "").replace("/", "-") if preset == "auto" else preset
    for file, default in _shipped(algorithm, name, source):
        layer = _read(file, name, default) if _title(file) == wanted else None
        if layer is not None:
            return wanted, layer
    if preset == "auto":
        return "", {}
    raise ConfigError(f"{name} has no preset {preset!r}; {nearest(preset, presets(algorithm, name, source))}", "preset")


def _shipped(algorithm: type[Any], name: str, source: type[Any] | None) -> list[tuple[Traversable, str]]:
    """Return the files of both packages, each with the algorithm that it is for if it names none."""
    theirs = [] if source is None else files(source)
    return [*((file, name) for file in files(algorithm, name)), *((file, "") for file in theirs)]


def _read(file: Traversable, name: str, default: str) -> Raw | None:
    """Return the content of a preset, or None if it is for another algorithm."""
    layer = _content(file)
    return layer if _owner(layer, default) == name else None


def _title(file: Traversable) -> str:
    return file.name.removesuffix(".yaml")


def _content(file: Traversable) -> Raw:
    return parse_mapping(file.read_text(encoding="utf-8"), f"preset {file.name}")


def _owner(layer: Raw, default: str) -> str:
    """Return the algorithm that a preset names, or the default."""
    part = layer.get("algorithm")
    owner: str = part.get("name", default) if isinstance(part, dict) else part or default
    return owner


def files(plugin: type[Any], name: str = "") -> list[Traversable]:
    """Return the files of presets in a plugin's package: first those of the algorithm `name`, then the others."""
    try:
        package = plugin.__module__.partition(".")[0]
        folder = resources.files(package) / "presets"
        found = [folder / name, folder] if name and (folder / name).is_dir() else [folder]
        return [file for place in found for file in place.iterdir() if file.name.endswith(".yaml")]
    except (
        ImportError,
        TypeError,
        AttributeError,
        OSError,
    ):  # not in a package, or a package without presets
        return []
