"""Import the modules of environments and wrappers that a configuration names."""

from __future__ import annotations

import importlib
import re
import sys
from types import ModuleType

import gymnasium

from maze_core.base.blame import blame, broken_package
from maze_core.base.errors import ConfigError
from maze_core.base.local_modules import needs_permission, way_to_permit
from maze_core.base.terminal_text import shown
from maze_core.plugins.discovery import describe, place_in

_PIP = re.compile(r"`(pip install [^`]+)`")
_OF_PYTHON = sys.stdlib_module_names | {"test"}

PACKAGES = {
    "JSSEnv": "JSSEnv", "ale_py": "ale-py", "array_api_compat": '"gymnasium[array-api]"',
    "bsuite": "bsuite", "crafter": "crafter gym", "cv2": "opencv-python",
    "jax": '"gymnasium[jax]"', "moviepy": "moviepy", "panda_gym": "panda-gym",
    "grid2op": "grid2op lightsim2grid",
    "gym": "gym", "gymnasium_robotics": "gymnasium-robotics", "highway_env": "highway-env",
    "lbforaging": "lbforaging", "minigrid": "minigrid", "miniworld": "miniworld",
    "mo_gymnasium": "mo-gymnasium", "mpe2": "mpe2", "or_gym": "or-gym gym", "pettingzoo": "pettingzoo",
    "popgym": "popgym", "rware": "rware", "supersuit": "supersuit",
}  # fmt: skip
"""What to install for modules with known environments; no other name is guessed, since anyone may publish under it."""


def import_module(name: str, where: str) -> ModuleType:
    """Import a module by its name; `where` is the setting that names it.

    A module of Python itself is not imported: none has environments, but many have effects.

    Raises:
        ConfigError: the name is not a module's; the module is Python's own, or a program; it lies in the current
            folder, and the user has not named it there; it is missing, or raises any exception, also SystemExit.
    """
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        raise ConfigError(f"{shown(name)} is not a module name", where, "Write module:Name.")
    if parts[0] in _OF_PYTHON or "__main__" in parts:
        raise ConfigError(
            f"{shown(name)} is a module of Python itself, or a program: none has environments or wrappers",
            where,
            "A module of your own needs another name." if len(parts) == 1 else None,
        )
    if needs_permission(name):
        raise ConfigError(
            f"would import the module {shown(name)} of the current folder, which needs your permission",
            where,
            way_to_permit(name),
        )
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:
        broken = broken_package(exc, name)
        hint = _replace(broken) if broken else None
        if isinstance(exc, ModuleNotFoundError):
            hint = "Install the package that provides it, or run where Python can find it."
            if getattr(exc, "name", None) == parts[0] and parts[0] in PACKAGES:
                hint = f"Install it: pip install {PACKAGES[parts[0]]}"
        raise ConfigError(
            f"the module {name!r} cannot be imported: {describe(exc)}{place_in(exc)}", where, hint
        ) from exc


def _replace(package: str) -> str:
    return f"Next: repair or replace the package {package}, which fails by itself: python -c 'import {package}'"


def explained(title: str, exc: Exception, where: str | None) -> ConfigError | None:
    """Return the error of a wrapper or an environment whose package is missing, breaks, or refuses what it was given.

    None: the exception was raised in code of the user's own, which its traceback names.

    Args:
        title: of the wrapper or environment.
        exc: what its constructor raised.
        where: the setting that names it.
    """
    if isinstance(exc, ModuleNotFoundError | gymnasium.error.DependencyNotInstalled):
        missing = (getattr(exc, "name", None) or "").partition(".")[0]
        stated = _PIP.search(str(exc))
        way = f"Next: install the package that has the module {missing!r}" if missing else None
        if missing in PACKAGES:
            way = f"Install it: pip install {PACKAGES[missing]}"
        if stated is not None:
            way = f"Install it: {stated.group(1)}"
        return ConfigError(f"{title} needs a package that is not installed: {describe(exc)}", where, way)
    if broken := broken_package(exc):
        text = f"{title} needs the package {broken}, which fails when it is imported: {describe(exc)}"
        return ConfigError(text, where, _replace(broken))
    return None if blame(exc) else ConfigError(f"{title} refuses this environment: {describe(exc)}", where)
