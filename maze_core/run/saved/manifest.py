"""Manifests of checkpoints: they show which folder in `checkpoints/` is complete, and which is the newest.

A checkpoint is written under a hidden name, `.last.3f9c02aa.new`. Then the folders are renamed one after the other.
If this is interrupted, the newest complete checkpoint still exists under some name. Its manifest identifies it: each
new checkpoint gets a greater number.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from maze_core.base import files
from maze_core.base.free_ram import free_ram
from maze_core.base.plain_json import checksummed, is_count, parse_object, unsealed

FORMAT = 2
CHECKPOINTS = "checkpoints"
MODEL, STATE, STATE_TENSORS, MANIFEST = "model.safetensors", "state.json", "state.safetensors", "manifest.json"
CONTENTS = (MODEL, STATE, STATE_TENSORS)
LAST, PREVIOUS, BEST = "last", "previous", "best"

_FACTS = ("files", "sequence", "beside", "run")
"""The keys of a manifest, in the order of the fields of `Manifest`."""
_MANIFEST_BYTES = 1_000_000
_STATE_BYTES = 200_000_000


@dataclass(frozen=True, slots=True)
class Extent:
    """Length of an append-only file at some moment, and the checksum of its contents."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What `manifest.json` says."""

    sha256: dict[str, str]
    """Checksums of the checkpoint's files by name."""
    sequence: int
    """Increases with every checkpoint of a run."""
    extents: dict[str, Extent]
    """Extents of the run directory's append-only files at that moment."""
    run: str | None
    """The `run_id` of its run; None where that was not known, since `run.json` was damaged."""

    def encode(self) -> bytes:
        """Return the file's contents."""
        extents = {name: asdict(extent) for name, extent in self.extents.items()}
        facts = {"format": FORMAT, "files": self.sha256, "sequence": self.sequence, "beside": extents, "run": self.run}
        return json.dumps(checksummed(facts), indent=1).encode()


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a checkpoint.

    Raises:
        OSError: it is missing or cannot be read.
        ValueError: it is damaged, or has another format.
    """
    try:
        data = parse_object(files.read_bytes(folder / MANIFEST, _MANIFEST_BYTES, root_of(folder)))
        if (found := data.get("format")) == FORMAT:
            data = unsealed(data)
    except ValueError as error:
        raise ValueError(f"{MANIFEST} is damaged: {error}") from error
    if found != FORMAT:
        raise ValueError(f"it has format {json.dumps(found)[:40]}; this version of Maze reads format {FORMAT}")
    if missing := set(_FACTS) - data.keys():
        raise ValueError(f"{MANIFEST} is damaged: it has no {min(missing)!r}")
    checksums, sequence, extents, run = (data[name] for name in _FACTS)
    right = isinstance(checksums, dict) and isinstance(extents, dict) and isinstance(run, str | None)
    if not right or not is_count(sequence) or sorted(checksums) != sorted(CONTENTS):
        raise ValueError(f"{MANIFEST} is damaged")
    return Manifest(checksums, sequence, {name: _extent(value) for name, value in extents.items()}, run)


def _extent(value: Any) -> Extent:
    if not isinstance(value, dict) or sorted(value) != ["bytes", "sha256"] or type(value["bytes"]) is not int:
        raise ValueError(f"{MANIFEST} is damaged")
    return Extent(**value)


def read_contents(folder: Path, manifest: Manifest) -> dict[str, bytes]:
    """Return the contents of a checkpoint's files by name.

    Raises:
        OSError: one is missing or cannot be read.
        ValueError: one does not match its checksum.
    """
    return {name: _verified(folder / name, digest) for name, digest in manifest.sha256.items()}


def _verified(path: Path, digest: str) -> bytes:
    free = None if path.name == STATE else free_ram()
    data = files.read_bytes(path, _STATE_BYTES if free is None else free, root_of(path.parent))
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{path.name} is damaged (its checksum does not match)")
    return data


def is_whole(folder: Path) -> bool:
    """Return True if all files of the checkpoint exist and are undamaged."""
    try:
        read_contents(folder, read_manifest(folder))
    except (OSError, ValueError):
        return False
    return True


def root_of(folder: Path) -> Path:
    """Return the run directory of a checkpoint; below it no link is followed."""
    return folder.parent.parent


def standing(folder: Path) -> Path:
    """Return the folder that holds the checkpoint `folder`: that one, or where an interrupted write left it.

    If it is damaged, only a newer complete one replaces it: an older one is never used silently.
    """
    there = files.names(folder.parent, root_of(folder))
    neighbours = [folder.with_name(name) for name in there if files.is_leftover(name, folder.name)]
    if folder.name in there:
        neighbours = [each for each in neighbours if each.name.endswith(".new")]
    elif folder.name == LAST and PREVIOUS in there:
        neighbours.append(folder.with_name(PREVIOUS))
    if not neighbours:
        return folder
    candidates = sorted([folder, *neighbours], key=sequence, reverse=True)
    return next(filter(is_whole, candidates), folder)


def sequence(folder: Path) -> int:
    """Return the number of a checkpoint; -1 if it has no readable manifest."""
    try:
        return read_manifest(folder).sequence
    except (OSError, ValueError):
        return -1


def checkpoints(run_dir: Path) -> list[str]:
    """Return the names of a run's checkpoints, including those that an interruption left elsewhere."""
    root = run_dir / CHECKPOINTS
    there = files.names(root, run_dir)
    hidden = (name for name in (LAST, PREVIOUS, BEST) if name not in there and is_whole(standing(root / name)))
    return sorted({name for name in there if not name.startswith(".")} | set(hidden))


def states(run_dir: Path) -> list[str]:
    """Return every readable `state.json` in the folders of `checkpoints/`, whatever their names."""
    root, found = run_dir / CHECKPOINTS, []
    for name in files.names(root, run_dir):
        with suppress(OSError):
            found.append(files.read_bytes(root / name / STATE, _STATE_BYTES, run_dir).decode(errors="replace"))
    return found
