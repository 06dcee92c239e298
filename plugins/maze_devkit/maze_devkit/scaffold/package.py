"""Writes a new plugin's package from templates."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Literal

from packaging.version import InvalidVersion, Version

from maze_core import ConfigError
from maze_core.plugins import discovery
from maze_devkit.scaffold.names import Names

License = Literal["MIT", "BSD-3-Clause", "Apache-2.0", "none"]
"""The package's licence by SPDX identifier; none: the author decides later."""


def write_package(names: Names, parent: Path, license: License = "MIT", author: str = "") -> Path:
    """Write the package of a new plugin to a folder below `parent`, and return the folder.

    Raises:
        ConfigError: the folder exists, or cannot be written.
    """
    folder = parent / names.distribution
    if folder.exists():
        raise ConfigError(f"{folder} exists already", "NAME", "Choose another name, or another folder with --dir.")
    write_files(folder, package_files(names, license, author))
    return folder


def write_files(folder: Path, contents: Mapping[str, str]) -> None:
    """Write texts to files below a folder, by path. Raises ConfigError."""
    try:
        for path, text in contents.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror or error}", "--dir") from error


def package_files(names: Names, license: License = "MIT", author: str = "") -> dict[str, str]:
    """Return the files of a new plugin's package, by path."""
    values = _values(names, license, author)
    templates = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        ".gitignore": "gitignore",
        ".github/workflows/ci.yml": "ci.yml",
        f"{names.package}/__init__.py": "init.py",
        f"{names.package}/{names.name}.py": f"{names.template}.py",
        f"tests/test_{names.name}.py": f"test_{names.template}.py",
    }
    if license != "none":
        templates["LICENSE"] = license
    files = {path: filled(template, values) for path, template in templates.items()}
    return {**files, f"{names.package}/py.typed": ""}


def usage(names: Names) -> str:
    """Return the command that uses the plugin."""
    return Template(names.starter.command).substitute(name=names.name)


def core_range(version: str) -> str:
    """Return the versions of the core compatible with `version` (docs/guide/compatibility.md): `>=0.1,<0.2`.

    Before 1.0 a minor version may break compatibility, from then on only a major one.
    """
    try:
        release = Version(version)
    except InvalidVersion:
        return ""
    after = f"0.{release.minor + 1}" if release.major == 0 else str(release.major + 1)
    return f">={release.major}.{release.minor},<{after}"


def _values(names: Names, license: License, author: str) -> dict[str, str]:
    declared = "" if license == "none" else f'license = "{license}"\nlicense-files = ["LICENSE"]\n'
    return {
        "kind": names.kind,
        "article": "an" if names.kind[0] in "ae" else "a",
        "name": names.name,
        "distribution": names.distribution,
        "package": names.package,
        "group": discovery.KINDS[names.kind],
        "plugin_class": names.plugin_class,
        "config_class": names.config_class,
        "env_class": f"{names.camel}Env",
        "summary": names.starter.summary,
        "command": usage(names),
        "help": f"maze {names.name} --help" if names.kind == "command" else f"maze plugins info {names.name}",
        "parameters": "options" if names.kind == "command" else "parameters",
        "requires": ", ".join(
            f'"{each}{core_range(discovery.core_version())}"' for each in (discovery.CORE, *names.starter.requires)
        ),
        "kit": f'"maze-devkit{core_range(discovery.core_version())}"',
        "license": declared,
        "presets": ', "presets/*.yaml"' if names.kind == "algorithm" else "",
        "author": author or f"the authors of {names.distribution}",
    }


def filled(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its values filled in."""
    source = resources.files("maze_devkit.scaffold").joinpath("templates", f"{template}.txt")
    return Template(source.read_text(encoding="utf-8")).substitute(values)
