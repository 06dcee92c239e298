"""The policies of the zoo: archives in folders of installed distributions, which the group `maze.zoo` names."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from maze_core import ConfigError
from maze_core.plugins.how_to_install import how_to_install

GROUP = "maze.zoo"
"""The entry-point group of functions that return a folder of archives, `NAME.zip`."""


def policies() -> dict[str, Path]:
    """Return the archives of all zoos that are installed, by name in alphabetical order.

    Raises:
        ConfigError: none is installed.
    """
    zoos = sorted(entry_points(group=GROUP), key=lambda each: each.name)
    if not zoos:
        raise ConfigError("zoo: needs maze-zoo, which is not installed", None, f"Next: {how_to_install('maze-zoo')}")
    found: dict[str, Path] = {}
    for zoo in zoos:
        folder: Callable[[], Path] = zoo.load()
        for file in folder().glob("*.zip"):
            found.setdefault(file.name.removesuffix(".zip"), file)
    return dict(sorted(found.items()))


def policy_named(name: str) -> Path:
    """Return the archive of a policy.

    Raises:
        ConfigError: the zoo has none of this name.
    """
    import difflib

    known = policies()
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, 3, 0.5)
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    raise ConfigError(f"the zoo has no policy {name}", "ADDRESS", f"{hint}Next: maze zoo list")
