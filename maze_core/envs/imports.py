"""Import the modules of environments and wrappers that users name."""

from __future__ import annotations

import importlib
from types import ModuleType

from maze_core.errors import ConfigError
from maze_core.plugins.discovery import describe, place_in
from maze_core.terminal_text import shown


def import_module(name: str, where: str) -> ModuleType:
    """Import a module by its name; `where` is the setting that names it.

    Raises:
        ConfigError: the name is not a module's, the module is missing, or it raises any exception, also SystemExit.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(f"{shown(name)} is not a module name", where, "Write module:Name.")
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:
        hint = "Install the package that provides it, or run where Python can find it."
        raise ConfigError(
            f"the module {name!r} cannot be imported: {describe(exc)}{place_in(exc)}",
            where,
            hint if isinstance(exc, ModuleNotFoundError) else None,
        ) from exc
