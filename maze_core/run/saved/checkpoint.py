"""Checkpoints: a folder that is either complete or absent, and the newest state of a run in memory.

    checkpoints/last/       the newest, written by the core after each epoch
    checkpoints/previous/   the one before it
    checkpoints/best/       the parameters of the best evaluation

Each holds `model.safetensors` (the policy), `state.json` with `state.safetensors` (everything else: arrays and tensors
in safetensors, the rest in JSON, never pickle) and `manifest.json` with the checksum of each file. A copy in memory is
what a checkpoint holds if the next update cannot be finished.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import save as save_arrays
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from maze_core.base import files
from maze_core.base.errors import CheckpointError, PluginError, RunError
from maze_core.base.file_systems import is_in_use, say_once
from maze_core.base.plain_json import parse_json
from maze_core.base.terminal_text import printable, shown
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


_OF_ARRAYS = {torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool}
"""Types of numbers that arrays have too."""
_KEYS = (str, int, float, type(None))
"""Types of keys that JSON gives back as they were."""
_PLAIN = {bool, int, float, str, type(None)}
_TENSOR, _ARRAY, _PAIRS = "$tensor", "$array", "$pairs"


def encode_tensors(tensors: dict[str, Tensor]) -> bytes:
    """Return tensors by name as safetensors bytes."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    if all(tensor.dtype in _OF_ARRAYS for tensor in plain.values()):
        return save_arrays({name: tensor.numpy() for name, tensor in plain.items()})  # five times as fast
    return save_tensors({name: tensor.clone() for name, tensor in plain.items()})  # refuses shared memory, so copies


def decode_tensors(data: bytes) -> dict[str, Tensor]:
    """Invert `encode_tensors`; raises ValueError if the bytes are not a safetensors file."""
    try:
        return load_tensors(data)
    except SafetensorError as error:
        raise ValueError(str(error)) from error


def encode_state(state: Any) -> tuple[bytes, bytes]:
    """Return nested dicts, lists, plain values, arrays and tensors as (JSON, safetensors) bytes.

    Raises:
        PluginError: something in it, of an algorithm, a wrapper or a network, is none of these.
    """
    tensors: dict[str, Tensor] = {}
    try:
        document = _pack(state, "", tensors)
    except RecursionError:
        raise PluginError("the state of the run is nested too deeply for a checkpoint, or contains itself") from None
    return json.dumps(document).encode(), encode_tensors(tensors)


def decode_state(document: bytes, tensors: bytes) -> Any:
    """Invert `encode_state`; raises ValueError if the bytes are damaged."""
    try:
        return _unpack(parse_json(document), decode_tensors(tensors))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if type(value) in _PLAIN:  # most of a state
        return value
    if isinstance(value, Tensor) and value.layout == torch.strided and not value.is_quantized:
        return {_TENSOR: _put(value, path, tensors)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        with suppress(TypeError):  # numbers that torch does not have
            array = torch.from_numpy(np.ascontiguousarray(value)).reshape(value.shape)
            return {_ARRAY: _put(array, path, tensors)}
    if isinstance(value, dict) and all(isinstance(k, _KEYS) for k in value):
        if all(isinstance(k, str) and not k.startswith("$") for k in value):
            return {k: _pack(v, f"{path}/{k}", tensors) for k, v in value.items()}
        # JSON keys are strings; the optimizer numbers its parameters.
        return {_PAIRS: [[k, _pack(v, f"{path}/{k}", tensors)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return [_pack(v, f"{path}/{i}", tensors) for i, v in enumerate(value)]
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or isinstance(plain, bool | int | float | str):
        return plain
    what = type(value).__name__ if not hasattr(value, "dtype") else f"{type(value).__name__} of {value.dtype}"
    if isinstance(value, dict):
        what = f"dict with the key {shown(next(k for k in value if not isinstance(k, _KEYS)))}"
    raise PluginError(f"state at {printable(path or '/', 200)} has type {what}, which a checkpoint cannot hold")


def _put(tensor: Tensor, path: str, tensors: dict[str, Tensor]) -> str:
    """Add a tensor under its path, or a longer name where another one has that: a key may contain a slash."""
    while path in tensors:
        path += "'"
    tensors[path] = tensor
    return path


def _unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_unpack(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    for kind in (_TENSOR, _ARRAY):
        if kind in value:
            name = value[kind]
            if not isinstance(name, str) or name not in tensors:
                raise ValueError(f"state.json names {shown(name)}, which is no tensor of state.safetensors")
            return tensors[name] if kind == _TENSOR else tensors[name].numpy()
    if _PAIRS in value:
        return {k: _unpack(v, tensors) for k, v in value[_PAIRS]}
    return {k: _unpack(v, tensors) for k, v in value.items()}
