"""Says why the plugins of a distribution in the current folder are unknown: only installed ones are looked up."""

from __future__ import annotations

import re
from pathlib import Path

from maze_core.base.files import names, read_bytes
from maze_core.base.terminal_text import shown

_LIMIT = 100_000


def uninstalled(name: str) -> str:
    """Return what to do about a plugin that a distribution in the current folder declares; empty if none does.

    Nothing is imported.
    """
    here = Path.cwd()
    declared = re.compile(rf"^{re.escape(name)}\s*=", re.MULTILINE)
    for folder in names(here, here):
        if folder.endswith((".dist-info", ".egg-info")):
            try:
                text = read_bytes(here / folder / "entry_points.txt", _LIMIT, here).decode(errors="replace")
            except OSError:
                continue
            if "[maze." in text and declared.search(text):
                return (
                    f"{shown(folder)} in the current folder declares it, but the plugins of a folder are unknown until "
                    "they are installed (docs/guide/trust.md). Next: pip install -e ."
                )
    return ""
