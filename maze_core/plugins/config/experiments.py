"""Experiments: whole configurations by name, in the folder `experiments` of the project or of an installed package."""

from __future__ import annotations

from pathlib import Path

from maze_core.base.errors import ConfigError
from maze_core.base.terminal_text import argument
from maze_core.plugins import discovery
from maze_core.plugins.config.plain_yaml import read_yaml
from maze_core.plugins.config.presets import PresetFolder, algorithm_of, installed, yaml_files


def experiment_paths() -> list[PresetFolder]:
    """Return where experiments are; the first with a name is the one that is used."""
    return [PresetFolder(Path("experiments"), origin="the project", trusted=False), *installed("experiments")]


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


def _places() -> str:
    here = Path("experiments").resolve()
    first = str(here) if here.is_dir() else f"{here} (there is no such folder)"
    return ", ".join([first, *(each.origin for each in experiment_paths()[1:])])
