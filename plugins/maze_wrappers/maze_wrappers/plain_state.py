"""The state of wrappers that do not save one themselves: the plain values among their attributes."""

from __future__ import annotations

import copy
import copyreg
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import gymnasium
import numpy as np

from maze_core.base.errors import CheckpointError

_DEEPEST = 6
_MOST = 1 << 22
"""Entries of an array or a container that is saved; larger ones hold data rather than a state."""
_NUMBERS = "biuf"
_WIDEST = 8
"""Kinds of numbers, and bytes of one, that a checkpoint holds."""
_OTHERS: tuple[Any, ...] = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Enum)
_OTHERS += (gymnasium.Env, gymnasium.vector.VectorEnv, gymnasium.Space)
"""Values that belong to nobody's state, or to that of another environment."""
_RANDOM = (np.random.Generator, np.random.RandomState, random.Random)
_NUMERIC = (bool, int, float, np.generic, np.ndarray)
_OWN = frozenset({"env", "_action_space", "_observation_space", "_metadata", "_cached_spec", "_saved_kwargs", "spec"})
"""Attributes of gymnasium's own classes."""
_LOST = object()
"""Stands for a value that cannot be saved."""


class _UnmadeError(ValueError):
    """The wrapper makes an object later, so its attributes cannot be put back."""


class PlainState:
    """Saves and restores the attributes of a wrapper: numbers, texts, arrays, random generators, and containers of
    these, also inside of other objects, such as running statistics.

    Args:
        layer: the wrapper.
        shared: objects that belong to what it wraps, by their identities.
    """

    def __init__(self, layer: Any, shared: Mapping[int, Any] = MappingProxyType({})) -> None:
        self.layer, self._shared = layer, shared
        self.name = f"{type(layer).__module__}:{type(layer).__qualname__}"
        self._born = frozenset(vars(layer))
        """The attributes of the new wrapper."""

    def state(self) -> dict[str, Any]:
        """Return `attributes`, and the names of the `others`, whose values cannot be saved."""
        values = {name: value for name, value in vars(self.layer).items() if name not in _OWN}
        saved = {name: _saved(value, self._shared, 0) for name, value in values.items()}
        kept = {name: value for name, value in saved.items() if value is not _LOST}
        return {"layer": self.name, "attributes": kept, "others": sorted(saved.keys() - kept.keys())}

    def load_state(self, state: Any) -> None:
        """Restore the result of `state()`.

        Raises:
            CheckpointError: it is not of this wrapper, or an attribute of it cannot have such a value.
        """
        try:
            given, others = dict(state["attributes"]), set(state["others"])
            if state["layer"] != self.name:
                raise ValueError(f"that of {state['layer']!s:.80}")
            values = {name: self._restored(name, value) for name, value in given.items()}
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            raise CheckpointError(f"the saved state of the wrapper {self.name} does not fit: {error!s:.200}") from None
        mine = vars(self.layer)
        for name in mine.keys() - given.keys() - others - self._born:
            del mine[name]  # it came into being after the state was saved
        mine.update((name, value) for name, value in values.items() if value is not _LOST)

    def _restored(self, name: Any, value: Any) -> Any:
        live = getattr(self.layer, name, None) if isinstance(name, str) and name.isidentifier() else _LOST
        if live is _LOST or name in _OWN or isinstance(live, _OTHERS) or id(live) in self._shared:
            raise ValueError(f"{name!s:.60} is no attribute that is saved")
        if _of_other_rows(self.layer, live, value):
            return live
        try:
            return _restored(value, live)
        except _UnmadeError:
            return _LOST
        except ValueError as error:
            raise ValueError(f"{name} is {error}") from None


def _of_other_rows(layer: Any, live: Any, value: Any) -> bool:
    """Return True for an array with a row for each environment, of a vectorised wrapper around fewer or more."""
    if not (isinstance(layer, gymnasium.vector.VectorEnv) and isinstance(live, np.ndarray) and np.ndim(value)):
        return False
    ours, theirs = live.shape, np.shape(value)
    return bool(ours[:1] == (layer.num_envs,) != theirs[:1] and ours[1:] == theirs[1:])


def state_of(layer: Any, inside: Sequence[Any]) -> PlainState:
    """Return the state of a wrapper; `inside`: the wrappers and the environment in it."""
    return PlainState(layer, parts_of(*inside))


def parts_of(*objects: Any) -> Mapping[int, Any]:
    """Return what objects have as attributes, and what these have, by identity: the parts of an environment.

    Constants are left out, since a part of something else may be the same one. The parts are kept alive, or another
    object might get the identity of one that is gone.
    """
    found = [value for each in objects for value in getattr(each, "__dict__", {}).values()]
    found += [value for each in found for value in getattr(each, "__dict__", {}).values()]
    return {id(each): each for each in found if not _is_constant(each)}


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(map(_is_constant, value))
    return isinstance(value, bool | int | float | complex | str | bytes | None)


def _saved(value: Any, shared: Mapping[int, Any], depth: int) -> Any:
    """Return a value as plain data of which `_restored` makes it again; `_LOST` where that cannot be."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if id(value) in shared or depth > _DEEPEST or isinstance(value, _OTHERS):
        return _LOST
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind not in _NUMBERS or value.dtype.itemsize > _WIDEST or value.size > _MOST:
            return _LOST
        return np.array(value) if isinstance(value, np.ndarray) else {"number": np.array(value)}
    if type(value) is bytes:
        return {"bytes": np.frombuffer(value, np.uint8).copy()}
    if isinstance(value, _RANDOM):
        return _tagged("generator", _state_of(value), shared, depth)
    if isinstance(value, dict | list | tuple | deque | set | frozenset):
        return _LOST if len(value) > _MOST else _saved_container(value, shared, depth)
    inside = _inside(value)
    if inside is None:
        return _LOST
    own = {k: v for k, v in inside.items() if not isinstance(v, _OTHERS) and id(v) not in shared}
    return _tagged("object", own, shared, depth)


def _state_of(random: Any) -> Any:
    if isinstance(random, np.random.Generator):
        return random.bit_generator.state
    return random.get_state(legacy=False) if isinstance(random, np.random.RandomState) else random.getstate()


def _inside(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object that consists of nothing else; None for any other one."""
    kind: Any = type(value)
    if (kind.__reduce_ex__, kind.__reduce__) != (object.__reduce_ex__, object.__reduce__):
        return None  # it has a way of its own
    with suppress(Exception):  # an object of C cannot be taken apart
        make, arguments, state, *items = value.__reduce_ex__(2)
        inside: dict[str, Any] = vars(value)
        usual = make is getattr(copyreg, "__newobj__") and arguments == (kind,)  # noqa: B009
        return inside if usual and state == inside and not any(items) else None
    return None


def _tagged(tag: str, value: Any, shared: Mapping[int, Any], depth: int) -> Any:
    saved = _saved(value, shared, depth + 1)
    return _LOST if saved is _LOST else {tag: saved}


def _saved_container(value: Any, shared: Mapping[int, Any], depth: int) -> Any:
    if isinstance(value, dict):
        pairs = [[_saved(each, shared, depth + 1) for each in pair] for pair in value.items()]
        return _LOST if any(each is _LOST for pair in pairs for each in pair) else {"dict": pairs}
    items = [_saved(each, shared, depth + 1) for each in value]
    if isinstance(value, deque):
        items.append(value.maxlen)
    kind = next(name for name, kind in _SEQUENCES.items() if isinstance(value, kind))
    return _LOST if any(each is _LOST for each in items) else {kind: items}


_SEQUENCES: Mapping[str, Any] = {"list": list, "tuple": tuple, "deque": deque, "set": set, "frozenset": frozenset}


def _restored(saved: Any, live: Any) -> Any:
    """Return the value that was saved, in place of a live one; an object gets its attributes back.

    Raises:
        ValueError: the live one is of another kind or shape; the message ends a sentence.
    """
    if not isinstance(saved, dict):
        return _restored_number(saved, live)
    tag, content = _opened(saved)
    restore = _RESTORE.get(tag)
    if restore is None:
        raise ValueError(f"of no known kind: {tag!s:.40}")
    return restore(content, live)


def _opened(saved: dict[str, Any]) -> tuple[str, Any]:
    if len(saved) != 1:
        raise ValueError("of no known kind")
    return next(iter(saved.items()))


def _restored_number(saved: Any, live: Any) -> Any:
    if isinstance(saved, np.ndarray):
        _of_kind(live, _NUMERIC, "array")
        grows = isinstance(live, np.ndarray) and live.ndim > 1 == len(live) and live.shape[1:] == saved.shape[1:]
        if isinstance(live, np.ndarray) and live.size and live.ndim and live.shape != saved.shape and not grows:
            raise ValueError(f"an array of shape {saved.shape}, and should have {live.shape}")
        return saved.copy()
    if saved is None and (isinstance(live, _RANDOM) or _inside(live) is not None):
        raise ValueError(f"nothing, and should be a {type(live).__name__}")
    if saved is not None:
        if type(saved) not in (bool, int, float, str):
            raise ValueError(f"a {type(saved).__name__}")
        _of_kind(live, str if isinstance(saved, str) else _NUMERIC, type(saved).__name__)
    return saved


def _of_kind(live: Any, kinds: Any, what: str) -> None:
    if not (live is None or isinstance(live, kinds)):
        raise ValueError(f"a {what}, and should be a {type(live).__name__}")


def _restored_dict(content: Any, live: Any) -> Any:
    _of_kind(live, dict, "dict")
    before = {} if live is None else live
    made = copy.copy(before)  # a Counter, or one with a default
    made.clear()
    for key, value in content:
        key = _restored(key, None)
        made[key] = _restored(value, before.get(key))
    return made


def _restored_sequence(kind: str) -> Callable[[Any, Any], Any]:
    def restored(content: Any, live: Any) -> Any:
        _of_kind(live, _SEQUENCES[kind], kind)
        before = list(live) if isinstance(live, list | tuple | deque) else []
        before += [None] * (len(content) - len(before))
        items = [_restored(each, now if _holds(each) else None) for each, now in zip(content, before, strict=False)]
        if kind == "deque":
            return deque(items[:-1], items[-1])
        named = isinstance(live, tuple) and hasattr(live, "_fields")
        return type(live)(*items) if named else _SEQUENCES[kind](items)

    return restored


def _holds(saved: Any) -> bool:
    """Return True for what needs the live value: an object or a generator, or a container of such ones."""
    if not isinstance(saved, dict):
        return False
    tag, content = _opened(saved)
    if tag == "dict":
        return any(_holds(value) for _, value in content)
    return tag in ("object", "generator") or (tag in _SEQUENCES and any(map(_holds, content)))


def _restored_object(content: Any, live: Any) -> Any:
    inside = None if isinstance(live, _OTHERS) else _inside(live)
    if inside is None:
        if live is not None:
            raise ValueError(f"an object, and should be a {type(live).__name__}")
        raise _UnmadeError("an object that the wrapper has not made yet")
    for name, value in _pairs(content):
        now = getattr(live, name, None)
        if isinstance(now, _OTHERS):
            raise ValueError(f"an object without a value {name!s:.40}")
        inside[name] = _restored(value, now)
    return live


def _pairs(content: Any) -> Iterator[tuple[str, Any]]:
    for name, value in content["dict"]:
        if not (isinstance(name, str) and name.isidentifier()):
            raise ValueError("an object with an impossible name")
        yield name, value


def _restored_generator(content: Any, live: Any) -> Any:
    state = _restored(content, None)
    if isinstance(live, np.random.Generator):
        live.bit_generator.state = state
    elif isinstance(live, np.random.RandomState):
        live.set_state(state)
    elif isinstance(live, random.Random):
        live.setstate(state)
    else:
        raise _UnmadeError("a random generator that the wrapper has not made yet")
    return live


def _restored_bytes(content: Any, live: Any) -> bytes:
    _of_kind(live, bytes, "bytes")
    return np.asarray(content, np.uint8).tobytes()


def _restored_scalar(content: Any, live: Any) -> Any:
    _restored_number(content, live)
    if np.shape(content):
        raise ValueError("an array, and should be a number")
    return content[()]


_RESTORE: Mapping[str, Callable[[Any, Any], Any]] = {
    "number": _restored_scalar,
    "bytes": _restored_bytes,
    "generator": _restored_generator,
    "dict": _restored_dict,
    "object": _restored_object,
    **{kind: _restored_sequence(kind) for kind in _SEQUENCES},
}
