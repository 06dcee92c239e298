"""Modules of the user's own, in the current folder: found behind everything that is installed.

A folder on `sys.path` is searched for more than modules: gymnasium and torch import what any `*.dist-info` in it names
as their plugin, and so would Maze. A folder into which a stranger's archive was unpacked must not become code that way,
so it stands on the path in a form that leads to its modules alone.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)

_FORM = "/dev/null/modules-of:"
"""Below a device there is no folder, so whoever else reads such an entry finds nothing."""
_LOADERS = (
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (SourceFileLoader, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)


def allow_local_modules() -> None:
    """Let imports find modules in the current folder, behind everything else on the path."""
    understand_local_modules()
    entry = _FORM + os.getcwd()  # noqa: PTH109 — sys.path holds strings
    if entry not in sys.path:
        sys.path.append(entry)


def understand_local_modules() -> None:
    """Let this process understand the path of the process that started it."""
    if _finder not in sys.path_hooks:
        sys.path_hooks.append(_finder)
        for entry in [each for each in sys.path_importer_cache if each.startswith(_FORM)]:
            del sys.path_importer_cache[entry]


def is_current_folder(entry: str) -> bool:
    """Whether an entry of `sys.path` is the current folder itself, however it came there."""
    try:
        return os.path.samefile(entry or ".", ".")  # noqa: PTH121
    except OSError:
        return False


def _finder(entry: str) -> FileFinder:
    if not entry.startswith(_FORM):
        raise ImportError(entry)
    return FileFinder(entry.removeprefix(_FORM), *_LOADERS)
