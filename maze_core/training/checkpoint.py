"""Checkpoints: a folder that is whole or not there.

    checkpoints/last/       the newest, written by the core after each epoch
    checkpoints/previous/   the one before it
    checkpoints/best/       the parameters of the best evaluation

Each holds `model.safetensors` (the policy), `state.json` with `state.safetensors` (everything else) and
`manifest.json` with the checksum of each file, written last.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from maze_core.errors import CheckpointError, RunError
from maze_core.files import write_bytes
from maze_core.plain_json import parse_object
from maze_core.training.state_files import decode_state, decode_tensors, encode_state, encode_tensors
from maze_core.wording import printable, shown

FORMAT = 1
MODEL, STATE, STATE_TENSORS, MANIFEST = (
    "model.safetensors",
    "state.json",
    "state.safetensors",
    "manifest.json",
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint in memory."""

    model: dict[str, Tensor]
    """The policy's state dict: parameters, and buffers such as normaliser statistics."""
    state: dict[str, Any]
    """Everything else a run needs to go on."""


def write_checkpoint(folder: Path, checkpoint: Checkpoint, previous: Path | None = None) -> None:
    """Write `checkpoint` to `folder`; the one that was there moves to `previous`, or goes once the new one is whole.

    Raises:
        RunError: the disk is full or the folder cannot be written; what was there before is untouched.
    """
    fresh = folder.with_name(f".{folder.name}.new")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        _write_files(fresh, checkpoint)
        _swap(fresh, folder, previous)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise RunError(f"could not write the checkpoint {folder}: {error.strerror or error}") from None


def _write_files(folder: Path, checkpoint: Checkpoint) -> None:
    document, tensors = encode_state(checkpoint.state)
    files = {MODEL: encode_tensors(checkpoint.model), STATE: document, STATE_TENSORS: tensors}
    for name, data in files.items():
        write_bytes(folder / name, data)
    checksums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    manifest = {"format": FORMAT, "sha256": checksums}
    write_bytes(folder / MANIFEST, json.dumps(manifest, indent=1).encode())


def _swap(fresh: Path, folder: Path, previous: Path | None) -> None:
    """Put `fresh` in the place of `folder`. At every moment one whole checkpoint bears a name readers look for."""
    retired = previous or folder.with_name(f".{folder.name}.old")
    shutil.rmtree(retired, ignore_errors=True)
    if folder.exists():
        folder.rename(retired)
    fresh.rename(folder)
    if previous is None:
        shutil.rmtree(retired, ignore_errors=True)


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read and verify a checkpoint.

    Raises:
        CheckpointError: it is missing or damaged; the message names the file and another whole checkpoint if any.
    """
    folder = _settled(folder)
    try:
        files = {name: _verified(folder / name, digest) for name, digest in _manifest(folder).items()}
        return Checkpoint(decode_tensors(files[MODEL]), _mapping(decode_state(files[STATE], files[STATE_TENSORS])))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        reason = f"{error.filename} is missing" if isinstance(error, FileNotFoundError) else str(error)
        raise CheckpointError(
            f"the checkpoint {folder} cannot be used: {printable(reason, 300)}.{_alternatives(folder)}"
        ) from error


def _settled(folder: Path) -> Path:
    """The folder itself, or what an interruption in the middle of a swap left of it."""
    candidates = (folder, folder.with_name(f".{folder.name}.new"), folder.with_name("previous"))
    return folder if folder.exists() else next((c for c in candidates if (c / MANIFEST).exists()), folder)


def _manifest(folder: Path) -> dict[str, str]:
    """The checksums of the files. Raises ValueError where it is not the manifest of a checkpoint, OSError."""
    manifest = parse_object((folder / MANIFEST).read_bytes())
    if manifest.get("format") != FORMAT:
        found = shown(manifest.get("format"))
        raise ValueError(f"its {MANIFEST} has format {found}; this version of Maze reads format {FORMAT}")
    checksums = manifest.get("sha256")
    if not isinstance(checksums, dict) or checksums.keys() != {MODEL, STATE, STATE_TENSORS}:
        raise ValueError(f"its {MANIFEST} does not list its files")
    return checksums


def _mapping(state: Any) -> dict[str, Any]:
    if not isinstance(state, dict):
        raise ValueError(f"{STATE} holds no mapping")
    return state


def _verified(path: Path, digest: str) -> bytes:
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{path.name} is damaged (its checksum does not match)")
    return data


def is_whole(folder: Path) -> bool:
    """Whether the checkpoint's files are all there and undamaged."""
    try:
        for name, digest in _manifest(folder).items():
            _verified(folder / name, digest)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


def _alternatives(folder: Path) -> str:
    others = [name for name in ("last", "previous", "best") if name != folder.name and is_whole(folder.with_name(name))]
    if not others:
        return " No other whole checkpoint is in this run."
    return f" Whole ones: {', '.join(others)}. Next: the same command with --checkpoint {others[0]}"
