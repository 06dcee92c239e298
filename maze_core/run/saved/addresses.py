"""Addresses of published policies: they stand wherever a run directory may."""

from __future__ import annotations

import re
from pathlib import Path

from maze_core.plugins.extensions import extension

ADDRESSES = "maze.addresses"
"""The entry-point group of `open`, which returns the run directory of the policy at an address."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:/.*|zoo:.*|.*#sha256=.*", re.DOTALL)


def is_address(path: Path) -> bool:
    """Return True for what was typed in place of a run, and is an address or an archive."""
    return not path.is_dir() if _ADDRESS.fullmatch(str(path)) else path.suffix == ".zip" and path.is_file()


def run_at(path: Path) -> Path:
    """Return the run directory of the published policy at an address; `path` itself where it is none."""
    if not is_address(path):
        return path
    found: Path = extension(ADDRESSES, "open", "the address of a policy", "maze-publish")(str(path))
    return found
