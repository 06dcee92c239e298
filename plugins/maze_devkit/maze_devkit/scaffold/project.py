"""Writes a new project from templates: an environment of one's own with experiments, presets and a test."""

from __future__ import annotations

import importlib.util
import json
import keyword
import sys
from pathlib import Path

from maze_core import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.config.presets import preset_of
from maze_devkit.config_schema import file_schema
from maze_devkit.scaffold.names import LONGEST, NAME, suggestion
from maze_devkit.scaffold.package import core_range, filled, write_files

_RESERVED = {"conftest", "experiments", "none", "null", "presets", "runs", "tests"}
"""Folders and files of a project, and values in YAML."""


def write_project(name: str, parent: Path) -> Path:
    """Write a new project to the folder `name` below `parent`, and return the folder.

    Raises:
        ConfigError: the name is malformed, reserved, or that of an installed module; PPO is not installed; the folder
            exists, or cannot be written.
    """
    check_name(name)
    folder = parent / name
    if folder.exists() or folder.is_symlink():
        raise ConfigError(f"{folder} exists already", "NAME", "Choose another name, or another folder with --dir.")
    discovery.load("algorithm", "ppo")  # which the experiments are for
    write_files(folder, project_files(name))
    return folder


def project_files(name: str) -> dict[str, str]:
    """Return the files of a new project, by path."""
    camel = "".join(part.capitalize() for part in name.split("_"))
    env_id = f"{camel}-v0"
    preset = preset_of(f"{name}:{env_id}")
    values = {
        "name": name,
        "title": name.replace("_", " ").capitalize(),
        "env_class": f"{camel}Env",
        "env_id": env_id,
        "range": core_range(discovery.core_version()),
    }
    templates = {
        f"{name}.py": "project_env.py",
        f"{name}_heuristics.py": "project_heuristics.py",
        "experiments/quick.yaml": "project_quick.yaml",
        "experiments/long.yaml": "project_long.yaml",
        f"presets/ppo/{preset}.yaml": "project_preset.yaml",
        f"tests/test_{name}.py": "test_project.py",
        "Makefile": "project_Makefile",
        "README.md": "project_README.md",
        "requirements.txt": "project_requirements",
        "pytest.ini": "project_pytest.ini",
        ".gitignore": "project_gitignore",
    }
    files = {path: filled(template, values) for path, template in templates.items()}
    return {**files, "maze.schema.json": json.dumps(file_schema(), indent=1) + "\n"}


def check_name(name: str) -> None:
    """Raise ConfigError if a project cannot have this name, which is that of its module, too."""
    if not (NAME.fullmatch(name) and len(name) <= LONGEST):
        raise ConfigError(
            f"{name!r:.200} is not a valid name of a project: lower-case letters, digits and single underscores, a "
            f"letter first, at most {LONGEST} characters",
            "NAME",
            suggestion(name),
        )
    if name in _RESERVED or keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise ConfigError(f"the name {name!r} is reserved", "NAME", "Choose another.")
    if name in sys.stdlib_module_names or importlib.util.find_spec(name):
        raise ConfigError(
            f"Python has a module {name} already, which would hide the project's", "NAME", "Choose another name."
        )
