"""Small trained policies, as archives; `maze-publish` opens them."""

from __future__ import annotations

from pathlib import Path


def folder() -> Path:
    """Return the folder with the archives of all policies, `NAME.zip`."""
    return Path(__file__).parent / "policies"
