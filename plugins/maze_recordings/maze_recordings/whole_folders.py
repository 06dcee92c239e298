"""Recordings that are there whole or not at all: written beside their folder, and moved there at the end."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from maze_core.base import files
from maze_recordings.recording_files import COMPLETE, DESCRIPTION, EPISODES, FOLDERS, REWARDS, WRAPPED

if TYPE_CHECKING:
    from pathlib import Path

_OWN = (DESCRIPTION, EPISODES, COMPLETE, f"{REWARDS}.npy", f"{WRAPPED}.npy", *FOLDERS.values())


def hidden_place(folder: Path) -> Path:
    """Return a new hidden path on the file system of a folder, which may be missing."""
    here = folder.absolute()
    above = here if here.is_dir() else next(each for each in here.parents if each.exists())
    return above / files.leftover(folder.name)


def move(place: Path, folder: Path) -> None:
    """Move a recording from its hidden place to its folder, which is missing or empty."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        place.rename(folder)
        return
    for each in sorted(place.iterdir(), key=lambda each: each.name == DESCRIPTION):  # without it, nothing is recorded
        each.rename(folder / each.name)
    place.rmdir()


def discard(folder: Path, itself: bool) -> None:
    """Remove the files of a recording; `itself`: the folder, too, if nothing else is in it."""
    with suppress(OSError):
        for name in _OWN:
            files.remove(folder / name, folder)
        if itself:
            folder.rmdir()
