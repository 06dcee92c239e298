"""Settings that other libraries would read in the current folder, which may have come with somebody's run."""

from __future__ import annotations

import os
from collections.abc import Iterable

from maze_core.base.errors import ConfigError


def refuse_settings_here(library: str, names: Iterable[str], where: str | None = None) -> None:
    """Raise ConfigError where the current folder has one of the files from which a library takes settings unasked.

    Args:
        library: its name.
        names: of the files.
        where: the part of the configuration that uses the library.
    """
    for name in names:
        if os.path.lexists(name):
            raise ConfigError(
                f"{library} would take settings from {name} of the current folder, which may come from others",
                where,
                "Next: move that file away, or use another folder.",
            )
