"""Presets: partial run configurations that a package ships in `presets/NAME.yaml`.

Those in an algorithm's package are for this algorithm, unless they name another one; those of one algorithm among
several in a package are in `presets/ALGORITHM/NAME.yaml`. Those in the package of an env source name their
algorithm, or are in such a folder too.
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
    return _read_all(_shipped(package(algorithm), name, None if source is None else package(source)), name)


def preset_names(name: str, algorithm_package: str | None, source_package: str | None) -> list[str]:
    """Return the names of the presets for the algorithm `name` in these packages, without importing its class."""
    return list(_read_all(_shipped(algorithm_package, name, source_package), name))


def preset_of(env_id: str) -> str:
    """Return the name of the preset that `auto` looks for: the id without the module that registers it."""
    return env_id.rpartition(":")[2].replace("/", "-")


def presets_of_source(source: type[Any]) -> list[tuple[str, str]]:
    """Return the presets in an env source's package: their names, each with the algorithm that it is for."""
    top = files(source)
    found = {(_title(file), _owner(_content(file), "")) for file in top}
    found |= {(_title(file), folder.name) for folder in _folders(package(source)) for file in _yaml(folder)}
    return sorted((title, owner) for title, owner in found if owner)


def choose(
    preset: str, env_id: str | None, algorithm: type[Any], name: str, source: type[Any] | None = None
) -> tuple[str, Raw]:
    """Return name and content of the preset to apply, empty if there is none.

    `auto` takes the preset named like the environment, `none` takes none. Presets are those of the algorithm and those
    of the env source `source`. Raises ConfigError for an unknown name.
    """
    if preset == "none":
        return "", {}
    wanted = preset_of(env_id or "") if preset == "auto" else preset
    shipped = _shipped(package(algorithm), name, None if source is None else package(source))
    for file, default in shipped:
        layer = _read(file, name, default) if _title(file) == wanted else None
        if layer is not None:
            return wanted, layer
    if preset == "auto":
        return "", {}
    raise ConfigError(f"{name} has no preset {preset!r}; {nearest(preset, presets(algorithm, name, source))}", "preset")


def _shipped(algorithm_package: str | None, name: str, source_package: str | None) -> list[tuple[Traversable, str]]:
    """Return the files of both packages, each with the algorithm that it is for if it names none."""
    found = [] if algorithm_package is None else [(file, name) for file in _files(algorithm_package, name)]
    if source_package is not None:
        own = [folder for folder in _folders(source_package) if folder.name == name]
        found += [(file, name) for folder in own for file in _yaml(folder)]
        found += [(file, "") for file in _files(source_package)]
    return found


def _read_all(shipped: list[tuple[Traversable, str]], name: str) -> dict[str, Raw]:
    own_last = reversed(shipped)
    read = {_title(file): layer for file, default in own_last if (layer := _read(file, name, default)) is not None}
    return dict(sorted(read.items()))


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


def package(plugin: type[Any]) -> str:
    """Return the name of the top package that a plugin class is in."""
    return plugin.__module__.partition(".")[0]


def files(plugin: type[Any], name: str = "") -> list[Traversable]:
    """Return the files of presets in a plugin's package: first those of the algorithm `name`, then the others."""
    return _files(package(plugin), name)


def _files(package: str, name: str = "") -> list[Traversable]:
    own = [folder for folder in _folders(package) if folder.name == name]
    return [file for place in [*own, _top(package)] if place is not None for file in _yaml(place)]


def _folders(package: str) -> list[Traversable]:
    """Return the folders in a package's `presets`, one for each algorithm that has one."""
    top = _top(package)
    return [] if top is None else [each for each in top.iterdir() if each.is_dir()]


def _yaml(folder: Traversable) -> list[Traversable]:
    return [file for file in folder.iterdir() if file.name.endswith(".yaml")]


def _top(package: str) -> Traversable | None:
    """Return a package's folder `presets`; None where there is none."""
    try:
        top = resources.files(package) / "presets"
        return top if top.is_dir() else None
    except (ImportError, TypeError, AttributeError, OSError):  # not in a package
        return None
