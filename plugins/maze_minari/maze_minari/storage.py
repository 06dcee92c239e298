"""What a data set from a stranger may not do: read other files of this machine, or claim episodes without end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maze_core.base import files
from maze_core.base.plain_json import is_count, parse_object

_METADATA_BYTES = 100_000_000


def check_count(folder: Path) -> None:
    """Raise ValueError where the metadata of a data set names more episodes than its files have bytes."""
    episodes = parse_object(files.read_bytes(folder / "metadata.json", _METADATA_BYTES)).get("total_episodes")
    size = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    if not is_count(episodes) or episodes > size:
        raise ValueError(f"its metadata names {episodes!s:.40} episodes, and its files have {size:,} bytes")


def check_all_named(folder: Path, named: int) -> None:
    """Raise ValueError where the files of a data set hold more episodes than its metadata names."""
    held = sum(each.is_dir() and each.name.isdecimal() for each in folder.iterdir())
    for file in folder.glob("*.hdf5"):
        import h5py

        with h5py.File(file, "r") as opened:
            held += sum(name.startswith("episode_") for name in opened)
    if held > named:
        raise ValueError(f"its metadata names {named} episodes, and its files hold {held}")


def check_contained(folder: Path) -> None:
    """Raise ValueError where a data set in HDF5 takes its arrays from other files, which HDF5 allows."""
    for file in sorted(folder.glob("*.hdf5")):
        import h5py

        with h5py.File(file, "r") as opened:
            _check(opened, h5py)


def _check(group: Any, h5py: Any) -> None:
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"{name!r:.80} is a link, and links are not followed here")
        value = group[name]
        if isinstance(value, h5py.Group):
            _check(value, h5py)
        elif isinstance(value, h5py.Dataset) and (value.external or value.is_virtual):
            raise ValueError(f"{name!r:.80} is stored in another file")
