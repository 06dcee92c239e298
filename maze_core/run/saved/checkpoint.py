"""Checkpoints: a folder that is either complete or absent, and the newest state of a run in memory.

    checkpoints/last/       the newest, written by the core after each epoch
    checkpoints/previous/   the one before it
    checkpoints/best/       the parameters of the best evaluation

Each holds `model.safetensors` (the policy), `state.json` with `state.safetensors` (everything else) and
`manifest.json` with the checksum of each file. A copy in memory is what a checkpoint holds if the next update cannot be
finished.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from maze_core.base import files
from maze_core.base.errors import CheckpointError, RunError
from maze_core.base.file_systems import is_in_use, say_once
from maze_core.base.terminal_text import printable
from maze_core.plugins.config.record import run_id
from maze_core.run.saved.manifest import (
    BEST,
    LAST,
    MANIFEST,
    MODEL,
    PREVIOUS,
    STATE,
    STATE_TENSORS,
    Extent,
    Manifest,
    is_whole,
    read_contents,
    read_manifest,
    root_of,
    sequence,
    standing,
)
from maze_core.run.saved.state_files import decode_state, decode_tensors, encode_state, encode_tensors


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint in memory."""

    model: dict[str, Tensor]
    """The policy's state dict: parameters, and buffers such as normaliser statistics."""
    state: dict[str, Any]
    """Everything else a run needs to continue."""
    extents: dict[str, Extent] = field(default_factory=dict)
    """Extent of each append-only file of the run directory, by name."""


def write_checkpoint(folder: Path, checkpoint: Checkpoint, previous: Path | None = None) -> None:
    """Write `checkpoint` to `folder`; the old one moves to `previous`, or is deleted once the new one is complete.

    Raises:
        RunError: the disk is full or the folder cannot be written; the old checkpoint is untouched.
    """
    root, fresh = root_of(folder), folder.with_name(files.leftover(folder.name))
    document, tensors = encode_state(checkpoint.state)
    contents = {MODEL: encode_tensors(checkpoint.model), STATE: document, STATE_TENSORS: tensors}
    try:
        files.make_folder(folder.parent, root)
        _tidy(folder, previous)
        try:
            _write_files(fresh, contents, checkpoint.extents)
        except OSError:
            with suppress(OSError):
                files.remove(fresh, root)
            raise
        _swap(fresh, folder, previous)
    except OSError as error:
        raise RunError(f"could not write the checkpoint {folder}: {error.strerror or error}") from None


def _tidy(folder: Path, previous: Path | None) -> None:
    """Finish an interrupted swap and remove its leftovers."""
    found = standing(folder)
    if files.is_leftover(found.name, folder.name):
        _swap(found, folder, previous)
        found = standing(folder)
    for name in files.names(folder.parent, root_of(folder)):
        if files.is_leftover(name, folder.name) and name != found.name:
            _discard(folder.with_name(name))


def _write_files(folder: Path, contents: dict[str, bytes], extents: dict[str, Extent]) -> None:
    root = root_of(folder)
    number = 1 + max((sequence(folder.with_name(name)) for name in files.names(folder.parent, root)), default=0)
    checksums = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    manifest = Manifest(checksums, max(1, number), extents, run_id(root))
    files.create(folder, {**contents, MANIFEST: manifest.encode()}, root)


def _swap(fresh: Path, folder: Path, previous: Path | None) -> None:
    """Replace `folder` with `fresh`. At every moment `standing` finds a complete checkpoint.

    Where the old one is in use and cannot be moved, the new one stays under its hidden name until the next swap.
    """
    root, retired = root_of(folder), folder.with_name(files.leftover(folder.name, "old"))
    there = set(files.names(folder.parent, root)) - {fresh.name}
    try:
        if folder.name in there:
            if previous is not None and previous.name in there:
                files.rename(previous, retired, root)
            files.rename(folder, previous or retired, root)
        files.rename(fresh, folder, root)
    except OSError as error:
        if not is_in_use(error):
            raise
        say_once(f"note: {folder.parent}: the last checkpoint is in use, so the newest one has a hidden name for now")
    files.sync(folder.parent, root)
    if not there:
        files.sync(root, root)
    _discard(retired)


def _discard(folder: Path) -> None:
    """Remove an old checkpoint, or leave it to the next save."""
    if not files.discard(folder, root_of(folder)):
        say_once(f"note: {folder.parent}: a checkpoint that is no longer needed is in use; a later one removes it")


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read and verify a checkpoint.

    Raises:
        CheckpointError: it is missing or damaged; the message names the file and another complete checkpoint if any.
    """
    try:
        found = standing(folder)
        manifest = read_manifest(found)
        known = run_id(root_of(folder))
        if None not in (known, manifest.run) and known != manifest.run:
            raise ValueError("it is a checkpoint of another run, or run.json is")
        contents = read_contents(found, manifest)
        state = _mapping(decode_state(contents[STATE], contents[STATE_TENSORS]))
        return Checkpoint(decode_tensors(contents[MODEL]), state, manifest.extents)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        reason = printable(_reason(error), 300)
        raise CheckpointError(
            f"the checkpoint {printable(folder)} cannot be used: {reason}.{_others(folder)}"
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{error.filename} is missing"
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)


def _mapping(state: Any) -> dict[str, Any]:
    if not isinstance(state, dict):
        raise ValueError(f"{STATE} is not a mapping")
    return state


def _others(folder: Path) -> str:
    others = [name for name in (LAST, PREVIOUS, BEST) if name != folder.name and is_whole(folder.with_name(name))]
    if not others:
        return " This run has no other intact checkpoint."
    return f" Intact checkpoints: {', '.join(others)}. Next: the same command with --checkpoint {others[0]}"


_SHARE = 100.0
"""The time between two copies is at least so many times that of taking one: they cost at most 1 %."""
_SLOW = 0.5
"""Seconds of an update after which the next one may be too long to be finished."""
_RARELY = 60.0
"""Seconds between two copies where updates are quick."""


class KeptState:
    """A copy of the newest state that is worth one, if it is newer than the checkpoint on disk.

    Args:
        capture: returns the state; it may refer to what training changes.
    """

    def __init__(self, capture: Callable[[], Checkpoint]) -> None:
        self._capture = capture
        self._cost = 0.0
        self.clear()

    def clear(self) -> None:
        """Forget the copy: the checkpoint on disk is as new, or is what should stand."""
        self.checkpoint: Checkpoint | None = None
        self._taken = self._last = time.perf_counter()

    @property
    def is_due(self) -> bool:
        """True after a slow update, or when there has been no copy for long, unless copies would cost too much."""
        now = time.perf_counter()
        since, update = now - self._taken, now - self._last
        self._last = now
        return since >= _SHARE * self._cost and (update >= _SLOW or since >= _RARELY)

    def take(self) -> None:
        """Copy the state."""
        began = time.perf_counter()
        found = self._capture()
        self.checkpoint = Checkpoint(_copied(found.model), _copied(found.state), found.extents)
        self._taken = self._last = time.perf_counter()
        self._cost = self._taken - began


def _copied(value: Any) -> Any:
    """Return nested dicts and lists with copies of their arrays and, on the CPU, of their tensors."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list | tuple) else value
