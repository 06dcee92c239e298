"""Tries what a memory promises when a policy is built with it: a mistake shows at the start, and names the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from maze_core.base.terminal_text import kind_of
from maze_core.data.sequences import Sequences
from maze_core.models.blocks import in_evaluation_mode
from maze_core.plugins.direct_calls import broken

if TYPE_CHECKING:
    from maze_core.base.errors import PluginError
    from maze_core.base.tree import TensorTree
    from maze_core.models.memory import Memory

_LENGTHS = (2, 1)
"""Rows of the sequences with which a memory is tried."""
_CLOSE = 1e-3
"""How far two ways to compute the same may differ: kernels for whole sequences round otherwise than steps do."""


def check_memory(memory: Memory, name: str, in_features: int) -> None:
    """Raise PluginError unless a few rows give what a memory promises. Its modes and all random numbers stay."""
    width = getattr(memory, "out_features", None)
    if type(width) is not int or width < 1:
        raise _broken(name, "it has no `out_features`, the width of the features that it returns")
    with in_evaluation_mode(memory), torch.no_grad():
        _try(memory, name, in_features, width)


def _try(memory: Memory, name: str, in_features: int, width: int) -> None:
    device = next((parameter.device for parameter in memory.parameters()), torch.device("cpu"))
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(sum(_LENGTHS), in_features, generator=generator).to(device)
    wanted, ends = zip(
        *(_one_by_one(memory, name, own, width) for own in rows.tensor_split([_LENGTHS[0]])), strict=True
    )
    state = _initial(memory, name, len(_LENGTHS))
    sequences = Sequences(np.array(_LENGTHS), state)
    found = _pair("after", memory.after(rows, sequences, state), name)
    outs = {"after": found[0], "unroll": memory.unroll(rows, sequences, state)}
    for method, out in outs.items():
        _check_features(method, out, (len(rows), width), name)
        if not torch.allclose(out, torch.cat(wanted), rtol=_CLOSE, atol=_CLOSE):
            raise _broken(name, f"`{method}` gives other features for whole sequences than `step` does row by row")
    if (kinds := _kinds(found[1])) != _kinds(state):
        raise _broken(name, f"the initial state is {_kinds(state)}, and that which `after` returns {kinds}")
    for key, leaf in found[1].items():
        if not torch.allclose(leaf.double(), torch.cat([end[key] for end in ends]).double(), rtol=_CLOSE, atol=_CLOSE):
            raise _broken(name, f"`after` ends in another state than `step`, in the leaf {key!r}")


def _one_by_one(memory: Memory, name: str, rows: Tensor, width: int) -> tuple[Tensor, TensorTree]:
    """Return the features and the last state of a sequence alone, step by step."""
    state, found = _initial(memory, name, 1), []
    for row in rows.unsqueeze(1):
        kept = {key: leaf.clone() for key, leaf in state.items()}
        features, after = _pair("step", memory.step(row, state), name)
        _check_features("step", features, (1, width), name)
        if any(not torch.equal(kept[key], leaf) for key, leaf in state.items()):
            raise _broken(name, "`step` changes the state that it is given")
        if _kinds(after) != _kinds(kept):
            raise _broken(name, f"the initial state is {_kinds(kept)}, and that after a step {_kinds(after)}")
        found.append(features)
        state = after
    return torch.cat(found), state


def _initial(memory: Memory, name: str, rows: int) -> TensorTree:
    state: Any = memory.initial_state(rows)
    if not isinstance(state, Mapping) or not all(isinstance(key, str) for key in state):
        raise _broken(name, f"`initial_state` returned {kind_of(state)}, not a dict of tensors by name")
    for key, leaf in state.items():
        if not isinstance(leaf, Tensor) or leaf.shape[:1] != (rows,):
            shape = tuple(leaf.shape) if isinstance(leaf, Tensor) else kind_of(leaf)
            raise _broken(name, f"`initial_state` returned {shape} as {key!r}, not a tensor [{rows}, …]")
        if leaf.dtype == torch.bfloat16:  # NumPy lacks it
            raise _broken(name, f"the dtype {leaf.dtype} of {key!r} cannot be saved; use float32")
    return dict(state)


def _pair(method: str, result: Any, name: str) -> tuple[Tensor, TensorTree]:
    if not isinstance(result, tuple | list) or len(result) != 2 or not isinstance(result[1], Mapping):
        raise _broken(name, f"`{method}` returned {kind_of(result)}, not features and a dict of the next state")
    features, state = result
    if odd := [key for key, leaf in state.items() if not isinstance(leaf, Tensor)]:
        raise _broken(name, f"`{method}` returned {kind_of(state[odd[0]])} as {odd[0]!r} of the state, not a tensor")
    return features, state


def _check_features(method: str, features: Any, shape: tuple[int, ...], name: str) -> None:
    if not isinstance(features, Tensor) or tuple(features.shape) != shape or features.dtype != torch.float32:
        got = f"{features.dtype} {tuple(features.shape)}" if isinstance(features, Tensor) else kind_of(features)
        raise _broken(name, f"`{method}` returned features {got}, not torch.float32 {shape}")
    if not bool(features.isfinite().all()):
        raise _broken(name, f"`{method}` returned features that are not finite")


def _kinds(state: TensorTree) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    return {key: (tuple(leaf.shape), leaf.dtype) for key, leaf in state.items()}


def _broken(name: str, problem: str) -> PluginError:
    return broken("memory", name, problem)
