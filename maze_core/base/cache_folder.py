"""Where Maze keeps what can be made or fetched again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path | None:
    """Return the folder `maze` for what may be deleted at any time; None for a user without a home folder.

    It is in `$XDG_CACHE_HOME` on every system, if that is set to a path from the root, else where the system has it.
    """
    default = {"darwin": "~/Library/Caches", "win32": os.environ.get("LOCALAPPDATA", "~/AppData/Local")}
    named = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return Path(named if named.startswith("/") else default.get(sys.platform, "~/.cache")).expanduser() / "maze"
    except RuntimeError:
        return None
