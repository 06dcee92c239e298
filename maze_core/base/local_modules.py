"""The user's modules in the current folder: imported if the user has named them, and only then.

The current folder may hold an archive that was unpacked there. So it is not on `sys.path`, where any `import` of a
library that does without the module, and any `*.dist-info`, would find it. A finder behind all others, which hides no
installed package and no editable one, answers for

- the modules that the user has named, as in `--env my_envs:Larger-v0`, in this call or earlier in this folder;
- what these modules import.

An entry of `sys.path` carries the folder and the names to worker processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from maze_core.base.terminal_text import argument

_FORM = "/dev/null/modules-of:"
"""A device contains no folder, so other readers of such an entry of `sys.path` find nothing."""
_LOADERS = (
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (SourceFileLoader, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)
_ON_BEHALF = ("importlib", "_frozen_importlib", "gymnasium.envs.registration")
"""Modules that import what their caller names."""


class LocalModules:
    """The finder of one folder's modules, for `sys.meta_path`."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._files = FileFinder(folder, *_LOADERS)
        self._names: set[str] = set()
        self._loaded: set[str] = set()

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return how to import a module; None where it may not come from this folder, or is not there."""
        if path is not None or not (name in self._names or self.brought(_importer())):
            return None
        spec = self._files.find_spec(name)
        if spec is not None:
            self._loaded.add(name)
            self.allow([name])  # workers get objects of it
        return spec

    def invalidate_caches(self) -> None:
        """Look at the folder again."""
        self._files.invalidate_caches()

    def holds(self, name: str) -> bool:
        """Return True if a file or package of that name is in this folder, whether or not it is imported."""
        own = self._files.find_spec(name)
        return own is not None and own.loader is not None

    def has(self, name: str) -> bool:
        """Return True if the module of that name is in this folder, and none of that name is found elsewhere."""
        own = self._files.find_spec(name)
        if own is None:
            return False
        with suppress(ImportError, ValueError):  # a module without a spec
            found = find_spec(name)
            return found is None or bool(_places(own) & _places(found))
        return False

    def brought(self, name: str) -> bool:
        """Return True if the module, or the package that it is in, was imported from this folder."""
        return name.partition(".")[0] in self._loaded

    def allows(self, name: str) -> bool:
        """Return True if the module may be imported from this folder."""
        return name in self._names

    def allow(self, names: Iterable[str]) -> None:
        """Let modules be imported from this folder, here and in worker processes that start from now on."""
        self._names |= set(names)
        self.withdraw()
        sys.path.append(f"{_FORM}{','.join(sorted(self._names))}:{self.folder}")

    def withdraw(self) -> None:
        """Remove the entry of this folder from `sys.path`."""
        sys.path[:] = [entry for entry in sys.path if _carried(entry)[1] != self.folder]


def allow_local_modules() -> None:
    """Let imports find modules of the current folder, after all others, once the user has named them."""
    folder = os.getcwd()  # noqa: PTH109 — sys.path holds strings
    for other in _finders():
        if other.folder != folder:
            sys.meta_path.remove(other)
            other.withdraw()
    _finder_of(folder).allow(())


def understand_local_modules() -> None:
    """Let this process import what the entries in the path inherited from its parent process allow."""
    for names, folder in [_carried(entry) for entry in sys.path]:
        if folder:
            _finder_of(folder).allow(filter(None, names.split(",")))


def permit(said: Any) -> None:
    """Let the modules that plain data name, as `module:Name`, be imported from the current folder.

    `said` is what the user has typed, or the contents of a file that the user has named. The names are remembered for
    this folder, so that a saved run finds its environment again. In a program, imports stay as Python made them.
    """
    names = set(named_modules(said))
    if not names:
        return
    with suppress(OSError):  # the current folder was removed
        finders = _finders() or [LocalModules(os.getcwd())]  # noqa: PTH109
        for finder in finders:
            here = [name for name in names if finder.has(name)]
            for name in here:
                _remember(finder.folder, name)
            if finder in sys.meta_path:
                finder.allow(here)


def needs_permission(module: str) -> bool:
    """Return True if a module would come from the current folder, and the user has never named it there."""
    name = module.partition(".")[0]
    for finder in [] if name in sys.modules else _finders():
        empty = module == name and not finder.holds(name)  # a folder, without code that registers anything
        if finder.allows(name) or empty or not finder.has(name):
            continue
        if not _remembered(finder.folder, name):
            return True
        finder.allow([name])
    return False


def way_to_permit(module: str) -> str:
    """Return what to do to permit a module: a command after which every other one may use it in this folder."""
    name = module.partition(".")[0]
    return f"If you trust it, name it yourself once: maze envs list {argument(f'{name}:')}"


def hidden_here(module: str) -> str | None:
    """Return what to do if the current folder has a module of this name, but an installed one is imported instead."""
    name = module.partition(".")[0]
    if not any(name and finder.holds(name) and not finder.has(name) for finder in _finders()):
        return None
    return f"An installed package {name} was imported. Your module {name} in this folder needs another name."


def goes_along(module: str, further: str) -> None:
    """Let `further`, which the module names, come from the current folder too if the module does."""
    for finder in _finders():
        if finder.brought(module):
            finder.allow([further.partition(".")[0]])


def named_modules(data: Any) -> Iterator[str]:
    """Yield the top package of each text `module:Name` in plain data."""
    if isinstance(data, Mapping):
        for value in data.values():
            yield from named_modules(value)
    elif isinstance(data, list | tuple | set):
        for value in data:
            yield from named_modules(value)
    elif isinstance(data, str):
        for text in data.split(","):
            module, colon, name = text.strip().partition(":")
            if colon and name[:1].isidentifier() and all(part.isidentifier() for part in module.split(".")):
                yield module.partition(".")[0]


def is_current_folder(entry: str) -> bool:
    """Return True if an entry of `sys.path` stands for the current folder."""
    try:
        return entry.startswith(_FORM) or os.path.samefile(entry or ".", ".")  # noqa: PTH121
    except OSError:
        return False


def _finders() -> list[LocalModules]:
    return [finder for finder in sys.meta_path if isinstance(finder, LocalModules)]


def _finder_of(folder: str) -> LocalModules:
    """Return the finder of a folder, which is last from now on."""
    found = next((each for each in _finders() if each.folder == folder), None) or LocalModules(folder)
    sys.meta_path[:] = [each for each in sys.meta_path if each is not found] + [found]
    return found


def _carried(entry: str) -> tuple[str, str]:
    """Return names and folder of an entry of `sys.path`; empty texts for any other entry."""
    names, _, folder = entry.removeprefix(_FORM).partition(":") if entry.startswith(_FORM) else ("", "", "")
    return names, folder


def _places(spec: ModuleSpec) -> set[str]:
    """Return the files and folders of a module."""
    return {os.path.realpath(place) for place in (spec.origin, *(spec.submodule_search_locations or ())) if place}


def _importer() -> str:
    """Return the name of the module whose code is importing."""
    frame = sys._getframe(2)
    while True:
        name = str(frame.f_globals.get("__name__", ""))
        if frame.f_back is None or not (name in _ON_BEHALF or name.startswith("importlib.")):
            return name
        frame = frame.f_back


def _remember(folder: str, name: str) -> None:
    """Keep for later processes that the user has named a module in a folder; if that fails, they ask again."""
    with suppress(OSError, RuntimeError):
        record = _record(folder, name)
        if not record.exists():
            record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(record, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(f"{name!a} of {folder!a}\n")


def _remembered(folder: str, name: str) -> bool:
    with suppress(OSError, RuntimeError):
        return _record(folder, name).is_file()
    return False


def _record(folder: str, name: str) -> Path:
    """Return the file that says so: one for each folder and name, so that processes do not disturb each other."""
    from hashlib import sha256

    own = os.environ.get("XDG_STATE_HOME", "")
    state = Path(own) if Path(own).is_absolute() else Path("~/.local/state").expanduser()
    key = sha256(os.fsencode(f"{os.path.realpath(folder)}\0{name}")).hexdigest()
    return state / "maze" / "named-modules" / key[:40]
