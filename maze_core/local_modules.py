"""Lets imports find the user's modules in the current folder, after all installed packages.

A folder on `sys.path` is searched for more than modules: gymnasium and torch import the plugins that any `*.dist-info`
in it names, and so would Maze. An archive unpacked into the current folder must not run code that way, so the folder's
entry on the path gives access to its modules only.
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
"""A device contains no folder, so other readers of such an entry find nothing."""
_LOADERS = (
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (SourceFileLoader, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)


def allow_local_modules() -> None:
    """Let imports find modules in the current folder, after everything else on the path."""
    understand_local_modules()
    entry = _FORM + os.getcwd()  # noqa: PTH109 — sys.path holds strings
    if entry not in sys.path:
        sys.path.append(entry)


def understand_local_modules() -> None:
    """Let this process use such entries in the path inherited from its parent process."""
    if _finder not in sys.path_hooks:
        sys.path_hooks.append(_finder)
        for entry in [each for each in sys.path_importer_cache if each.startswith(_FORM)]:
            del sys.path_importer_cache[entry]


def is_current_folder(entry: str) -> bool:
    """Return True if an entry of `sys.path` is the current folder itself."""
    try:
        return os.path.samefile(entry or ".", ".")  # noqa: PTH121
    except OSError:
        return False


def _finder(entry: str) -> FileFinder:
    if not entry.startswith(_FORM):
        raise ImportError(entry)
    return FileFinder(entry.removeprefix(_FORM), *_LOADERS)
