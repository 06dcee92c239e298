"""Presets and experiments: partial run configurations in folders, `NAME.yaml` or `ALGORITHM/NAME.yaml`.

A file is for the algorithm that it names, or else for that of its folder. The folders are

- of the project: `presets` and `experiments` of the current folder
- presets also in the package of the algorithm, and in that of the env source
- packages that other distributions name in the entry-point group `maze.presets`; they are not imported
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.config.plain_yaml import read_yaml
from maze_core.plugins.config.raw import Raw

Read = Callable[[Path], Raw]
"""Returns the mapping in a YAML file. Raises ConfigError."""
Skipped = Callable[[ConfigError], object]
"""Receives what is wrong with a file that is left out."""


@dataclass(frozen=True)
class PresetFolder:
    """A folder of presets, or of experiments."""

    folder: Path
    algorithm: str = ""
    """The algorithm of files that name none and are in no algorithm's folder; empty: such files are no presets."""
    origin: str = ""
    """Where it comes from, for messages; empty for the package of the algorithm or of the env source."""
    trusted: bool = True
    """Whether it is installed. A file of the current folder may come from anyone."""

    def files(self, algorithm: str = "") -> Iterator[tuple[Path, str]]:
        """Yield the files, each with the algorithm that it is for if it names none: first those in `algorithm/`.

        Where there are some, the others that name none are for the other algorithms of the package.
        """
        own = yaml_files(self.folder / algorithm) if algorithm else []
        yield from ((file, algorithm) for file in own)
        yield from ((file, "" if own else self.algorithm) for file in yaml_files(self.folder))

    def contents(self, skipped: Skipped | None = None) -> list[tuple[str, str]]:
        """Return the names of all presets, each with its algorithm.

        `skipped` is called with what is wrong with a file that cannot be read, which is left out.

        Raises:
            ConfigError: a file cannot be read, and there is no `skipped`.
        """
        below = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        files = [(file, self.algorithm) for file in yaml_files(self.folder)]
        files += [(file, folder.name) for folder in below for file in yaml_files(folder)]
        found = {
            (file.stem, algorithm_of(raw, algorithm))
            for file, algorithm in files
            if (raw := readable(file, skipped)) is not None
        }
        return sorted((name, algorithm) for name, algorithm in found if algorithm)


@dataclass(frozen=True)
class Preset:
    """A preset that was found."""

    file: Path
    content: Raw
    preset_folder: PresetFolder

    @property
    def title(self) -> str:
        """Its name, and where it comes from if that is neither the algorithm's nor the env source's package."""
        if not self.preset_folder.trusted:
            return f"{self.file.stem} ({self.file.as_posix()})"
        return f"{self.file.stem} ({self.preset_folder.origin})" if self.preset_folder.origin else self.file.stem


def choose(preset: str, env_id: str | None, algorithm: str, preset_folders: Sequence[PresetFolder]) -> Preset | None:
    """Return the preset to apply, or None: the first with this name.

    `auto` takes the preset named like the environment, if there is one; `none` takes none.

    Raises:
        ConfigError: there is no preset of this name.
    """
    if preset == "none":
        return None
    wanted = preset_of(env_id or "") if preset == "auto" else preset
    for found in _read(algorithm, preset_folders, wanted):
        return found
    if preset == "auto":
        return None
    from maze_core.plugins.config.explain import nearest

    known = named_presets(algorithm, preset_folders, skipped=lambda error: None)
    raise ConfigError(f"{algorithm} has no preset {preset!r}; {nearest(preset, known)}", "preset")


def preset_file(file: Path, algorithm: str) -> Preset:
    """Return the preset in a file that the user has named; what it names is no more trusted for that."""
    content = read_yaml(file)
    if (meant := algorithm_of(content, algorithm)) != algorithm:
        raise ConfigError(f"{file} is for the algorithm {meant}, not for {algorithm}", "preset")
    return Preset(file, content, PresetFolder(file.parent, trusted=False))


def named_presets(
    algorithm: str,
    preset_folders: Sequence[PresetFolder],
    skipped: Skipped | None = None,
    read: Read = read_yaml,
) -> dict[str, Preset]:
    """Return the presets for an algorithm by name, sorted.

    `skipped` is called with what is wrong with a file that cannot be read, which is left out. `read` reads a file.

    Raises:
        ConfigError: a file cannot be read, and there is no `skipped`.
    """
    found: dict[str, Preset] = {}
    for preset in _read(algorithm, preset_folders, skipped=skipped, read=read):
        found.setdefault(preset.file.stem, preset)
    return dict(sorted(found.items()))


def presets(plugin: type[Any], algorithm: str) -> dict[str, Raw]:
    """Return the presets in the package of an algorithm, by name."""
    found = named_presets(algorithm, presets_of_package(package(plugin), algorithm))
    return {name: preset.content for name, preset in found.items()}


def presets_of_source(source: type[Any], skipped: Skipped | None = None) -> list[tuple[str, str]]:
    """Return the presets in an env source's package: their names, each with the algorithm that it is for.

    `skipped`: as of `PresetFolder.contents`.
    """
    return [pair for each in presets_of_package(package(source)) for pair in each.contents(skipped)]


def readable(file: Path, skipped: Skipped | None, read: Read = read_yaml) -> Raw | None:
    """Return the mapping in a file; None, after a call of `skipped`, if it cannot be read.

    Raises:
        ConfigError: it cannot be read, and there is no `skipped`.
    """
    try:
        return read(file)
    except ConfigError as error:
        if skipped is None:
            raise
        skipped(error)
        return None


def preset_of(env_id: str) -> str:
    """Return the name of the preset that `auto` looks for: the id without its module, with `-` for `/`."""
    return env_id.rpartition(":")[2].replace("/", "-")


def package(plugin: type[Any]) -> str:
    """Return the name of the top package that a plugin class is in."""
    return plugin.__module__.partition(".")[0]


def presets_of_package(
    name: str | None, algorithm: str = "", origin: str = "", folder: str = "presets"
) -> list[PresetFolder]:
    """Return the folder of presets in a package, if it has one."""
    place = package_folder(name) if name else None
    return [PresetFolder(place / folder, algorithm, origin)] if place and (place / folder).is_dir() else []


def package_folder(name: str) -> Path | None:
    """Return the folder of a package without importing it; None if there is none."""
    top, *rest = name.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError, AttributeError):  # `__main__`, a module without a spec
        return None
    places = [Path(place, *rest) for place in (spec.submodule_search_locations if spec else None) or ()]
    return next((place for place in places if place.is_dir()), None)


def yaml_files(folder: Path) -> list[Path]:
    """Return the YAML files directly in a folder, sorted; none if there is no such folder."""
    return sorted(folder.glob("*.yaml"))


def algorithm_of(content: Raw, default: str = "") -> str:
    """Return the algorithm that a configuration names, or the default."""
    part = content.get("algorithm")
    named = part.get("name") if isinstance(part, dict) else part
    return named if isinstance(named, str) else default


def _read(
    algorithm: str,
    preset_folders: Sequence[PresetFolder],
    name: str | None = None,
    skipped: Skipped | None = None,
    read: Read = read_yaml,
) -> Iterator[Preset]:
    """Yield the presets for an algorithm in order; with `name`, only the files of that name are read."""
    for folder in preset_folders:
        for file, default in folder.files(algorithm):
            if name in (None, file.stem):
                content = readable(file, skipped, read)
                if content is not None and algorithm_of(content, default) == algorithm:
                    yield Preset(file, content, folder)


GROUP = "maze.presets"
"""The entry-point group of packages with folders `presets` and `experiments`."""


def preset_paths(algorithm: str, algorithm_package: str | None, source_package: str | None) -> list[PresetFolder]:
    """Return where the presets for an algorithm are; the first with a name is the one that is used."""
    return [
        PresetFolder(Path("presets"), origin="the project", trusted=False),
        *presets_of_package(algorithm_package, algorithm),
        *presets_of_package(source_package),
        *installed("presets"),
    ]


def installed(folder: str) -> list[PresetFolder]:
    """Return the folders of this name in the packages of the group."""
    preset_folders = []
    for claim in discovery.group(GROUP):
        if claim.entry_point.value.replace(".", "").isidentifier():
            preset_folders += presets_of_package(claim.entry_point.module, origin=claim.origin, folder=folder)
    return preset_folders
