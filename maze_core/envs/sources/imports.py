"""Import the modules of environments and wrappers that a configuration names."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from maze_core.base.errors import ConfigError
from maze_core.base.local_modules import needs_permission, way_to_permit
from maze_core.base.terminal_text import shown
from maze_core.plugins.discovery import describe, place_in

_OF_PYTHON = sys.stdlib_module_names | {"test"}

PACKAGES = {
    "JSSEnv": "JSSEnv", "ale_py": "ale-py", "bsuite": "bsuite", "crafter": "crafter gym",
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
        known = PACKAGES.get(parts[0]) if getattr(exc, "name", None) == parts[0] else None
        hint = "Install the package that provides it, or run where Python can find it."
        if known is not None:
            hint = f"Install it: pip install {known}"
        raise ConfigError(
            f"the module {name!r} cannot be imported: {describe(exc)}{place_in(exc)}",
            where,
            hint if isinstance(exc, ModuleNotFoundError) else None,
        ) from exc
