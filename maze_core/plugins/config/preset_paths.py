"""Where presets and experiments are.

- the project: the folders `presets` and `experiments` of the current folder
- presets also in the package of the algorithm, and in that of the env source
- packages that other distributions name in the entry-point group `maze.presets`; they are not imported
"""

from __future__ import annotations

from pathlib import Path

from maze_core.base.errors import ConfigError
from maze_core.base.terminal_text import argument
from maze_core.plugins import discovery
from maze_core.plugins.config.plain_yaml import read_yaml
from maze_core.plugins.config.presets import (
    PresetFolder,
    algorithm_of,
    package_folder,
    presets_of_package,
    readable,
    yaml_files,
)

GROUP = "maze.presets"
"""The entry-point group of packages with folders `presets` and `experiments`."""


def preset_paths(algorithm: str, algorithm_package: str | None, source_package: str | None) -> list[PresetFolder]:
    """Return where the presets for an algorithm are; the first with a name is the one that is used."""
    return [
        PresetFolder(Path("presets"), origin="the project", trusted=False),
        *presets_of_package(algorithm_package, algorithm),
        *presets_of_package(source_package),
        *_installed("presets"),
    ]


def experiment_paths() -> list[PresetFolder]:
    """Return where experiments are; the first with a name is the one that is used."""
    return [PresetFolder(Path("experiments"), origin="the project", trusted=False), *_installed("experiments")]


def experiments() -> dict[str, Path]:
    """Return the files of all experiments by name, sorted."""
    found: dict[str, Path] = {}
    for each in experiment_paths():
        for file in yaml_files(each.folder):
            found.setdefault(file.stem, file)
    return dict(sorted(found.items()))


def experiment(name: str) -> Path:
    """Return the file of an experiment.

    Raises:
        ConfigError: there is none of this name.
    """
    found = experiments()
    if name in found:
        return found[name]
    if Path(name).suffix in (".yaml", ".yml") or Path(name).name != name:
        bare = Path(name).stem
        hint = f"Did you mean --experiment {bare}?" if bare in found else "To use a file: --config FILE"
        raise ConfigError(f"{name!r:.200} is not the name of an experiment, but of a file", "--experiment", hint)
    from maze_core.plugins.config.explain import nearest

    raise ConfigError(
        f"there is no experiment {name!r:.200}; {nearest(name, found)}", "--experiment", f"Looked in {_places()}"
    )


def experiment_algorithm(name: str, command: str) -> str:
    """Return the algorithm of an experiment. `command`, such as `maze train`, is what hints suggest.

    Raises:
        ConfigError: there is no such experiment, or it names no algorithm, or one that is not installed.
    """
    file = experiment(name)
    algorithm = algorithm_of(read_yaml(file))
    if not algorithm:
        raise ConfigError("names no algorithm", str(file), f"Next: {command} ALGORITHM --experiment {argument(name)}")
    if algorithm not in discovery.names("algorithm"):
        try:
            discovery.load("algorithm", algorithm)
        except ConfigError as error:
            raise ConfigError(error.message, f"{file}: algorithm", error.hint) from None
    return algorithm


def preset_packages() -> list[tuple[discovery.Declaration, list[str], str]]:
    """Return each package of the group with what it contains, as texts, or with what is wrong with it."""
    return [(claim, *_looked_at(claim)) for claim in discovery.group(GROUP)]


def _looked_at(claim: discovery.Declaration) -> tuple[list[str], str]:
    try:
        module = claim.entry_point.module
    except (AttributeError, ValueError):  # a malformed value
        return [], f"{claim.entry_point.value!r} is not the name of a package"
    if package_folder(module) is None:
        return [], f"there is no package {module}"
    problems: list[ConfigError] = []
    of = [pair for each in presets_of_package(module) for pair in each.contents(problems.append)]
    files = [file for each in presets_of_package(module, folder="experiments") for file in yaml_files(each.folder)]
    found = [f"{name} ({algorithm})" for name, algorithm in of]
    found += [f"{file.stem} (experiment)" for file in files if readable(file, problems.append) is not None]
    if not found and not problems:
        return [], f"{module} has neither presets nor experiments"
    return found, "\n".join(map(str, problems))


def _installed(folder: str) -> list[PresetFolder]:
    """Return the folders of this name in the packages of the group."""
    preset_folders = []
    for claim in discovery.group(GROUP):
        if claim.entry_point.value.replace(".", "").isidentifier():
            preset_folders += presets_of_package(claim.entry_point.module, origin=claim.origin, folder=folder)
    return preset_folders


def _places() -> str:
    here = Path("experiments").resolve()
    first = str(here) if here.is_dir() else f"{here} (there is no such folder)"
    return ", ".join([first, *(each.origin for each in experiment_paths()[1:])])
