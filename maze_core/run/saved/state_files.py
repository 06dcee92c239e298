"""Nested state as files: arrays and tensors in safetensors, everything else in JSON. Never pickle."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import save as save_arrays
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from maze_core.base.errors import PluginError
from maze_core.base.plain_json import parse_json
from maze_core.base.terminal_text import printable, shown

_OF_ARRAYS = {torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool}
"""Types of numbers that arrays have too."""
_KEYS = (str, int, float, type(None))
"""Types of keys that JSON gives back as they were."""
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
