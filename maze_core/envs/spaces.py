"""Spaces as flat dicts of leaves: their keys, their storage, and the spaces that Maze refuses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import Space, spaces

from maze_core.base.errors import ConfigError
from maze_core.base.terminal_text import argument, shown
from maze_core.base.tree import Tree

Role = Literal["observation", "action"]
"""What a space is for; also the key of the only leaf of a single space."""

ROLES: tuple[Role, ...] = ("observation", "action")

Specs = dict[str, "LeafSpec"]
"""How each leaf of a tree is stored."""

_NO_BOUND = 1e30
_COARSE = 128
# Parts of 2^24 / 128 are left of a range that is so much smaller than its numbers.
_PICTURE = 32
# Pixels per side from which an array counts as a picture, not as a board or a short series: no picture has 3 by 84
# pixels and 84 channels.


_WRAPPERS = {"observation": "ObservationWrapper", "action": "ActionWrapper"}
MAX_ENTRIES = 20_000_000
"""Entries that one leaf may have."""
MAX_DEPTH = 50
"""Levels of Dict and Tuple that a space may have."""


@dataclass(frozen=True, slots=True)
class LeafSpec:
    """The storage of one leaf: the shape of one row, and its dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf of a space: its key in the tree, its path in the user's structure, and its own space."""

    key: str
    path: tuple[str | int, ...]
    space: Space[Any]


def leaves(space: Space[Any], role: Role) -> list[Leaf]:
    """Return all leaves of a space, in the space's order.

    Raises:
        ConfigError: a space or key that Maze does not support, with its path.
    """
    return list(_walk(space, (), role))


def flatten_space(space: Space[Any], role: Role) -> dict[str, Space[Any]]:
    """Return the leaf spaces of an observation or action space by tree key.

    A single space becomes `{role: space}`; nested keys join with `/`; tuple members are "0", "1", ….

    Raises:
        ConfigError: a space or key that Maze does not support, with its path.
    """
    return {leaf.key: leaf.space for leaf in leaves(space, role)}


def leaf_spec(space: Space[Any], role: Role = "observation") -> LeafSpec:
    """Return how one leaf is stored. Discrete values count from 0; uint8 stays uint8.

    Floats have at most 32 bits, and actions are such floats, unless the leaf `is_narrow`.
    """
    if isinstance(space, spaces.Discrete):
        return LeafSpec((), np.dtype(np.int64))
    shape = tuple(space.shape or ())
    if isinstance(space, spaces.MultiDiscrete):
        return LeafSpec(shape, np.dtype(np.int64))
    if isinstance(space, spaces.MultiBinary):
        return LeafSpec(shape, np.dtype(np.int8))
    dtype = np.dtype(space.dtype)
    if role == "observation" and not (dtype.kind == "f" and dtype.itemsize > 4):
        return LeafSpec(shape, dtype)
    return LeafSpec(shape, np.dtype(np.float64 if is_narrow(space) else np.float32))


def space_specs(space: Space[Any], role: Role) -> Specs:
    """Return how each leaf of an observation or action space is stored."""
    return {leaf.key: leaf_spec(leaf.space, role) for leaf in leaves(space, role)}


def allocate(specs: Specs, leading: tuple[int, ...]) -> Tree:
    """Return an array of zeros for every leaf, shapes `[*leading, *leaf shape]`."""
    return {key: np.zeros((*leading, *spec.shape), spec.dtype) for key, spec in specs.items()}


def allocated_bytes(specs: Specs, leading: tuple[int, ...]) -> int:
    """Return the bytes that `allocate` would take, without allocating."""
    return math.prod(leading) * sum(spec.nbytes for spec in specs.values())


def float_bounds(space: spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of a Box, float64; infinite from 1e30 on, and at the largest number of its own float type.

    Environments write the largest number of float32 (3.4e38), also in a float64 Box, or of their own type (65504 in
    float16) for "no bound". Scaling actions to such a range would make them as large.
    """
    kind: np.dtype[Any] = np.dtype(space.dtype)
    largest = min(_NO_BOUND, float(np.finfo(kind).max)) if kind.kind == "f" else _NO_BOUND
    low, high = (np.asarray(bound, np.float64) for bound in (space.low, space.high))
    return np.where(low > -largest, low, -np.inf), np.where(high < largest, high, np.inf)


def is_narrow(space: Space[Any]) -> bool:
    """Return True for a Box whose range float32 divides into less than some ten thousand parts, such as 1e6 to 1e6 + 1.

    float32 cannot tell its values apart that the numbers of its own type can: they have more digits.
    """
    if not isinstance(space, spaces.Box) or np.dtype(space.dtype).itemsize < (8 if _is_float(space) else 4):
        return False
    low, high = float_bounds(space)
    with np.errstate(invalid="ignore"):
        return bool(((high > low) & (np.maximum(abs(low), abs(high)) > _COARSE * (high - low))).any())


def _is_float(space: spaces.Box) -> bool:
    return np.dtype(space.dtype).kind == "f"


def whole_bounds(space: spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of a Box of integers or bools, float64: numbers between them can be cast to its dtype.

    The largest integer of 64 bits is none of them: as float64 it is 2^63 or 2^64, which a cast makes negative or 0.
    """
    kind: np.dtype[Any] = np.dtype(space.dtype)
    top = 1 if kind.kind == "b" else int(np.iinfo(kind).max)
    largest = float(top) if int(float(top)) <= top else math.nextafter(float(top), 0)
    low, high = (np.minimum(np.asarray(bound, np.float64), largest) for bound in (space.low, space.high))
    return low, high


def is_image(space: Space[Any]) -> bool:
    """Return True for a leaf treated as an image: a Box of three dimensions, or of two with dtype uint8."""
    if not isinstance(space, spaces.Box):
        return False
    return len(space.shape) == 3 or (len(space.shape) == 2 and space.dtype == np.uint8)


def looks_channels_first(shape: tuple[int, ...]) -> bool:
    """Return True when the first of three axes is so much shorter than the others that it may hold the channels."""
    return len(shape) == 3 and 4 * shape[0] <= min(shape[1:])


def is_channels_first(shape: tuple[int, ...]) -> bool:
    """Return True when an image's channels surely come first: `looks_channels_first`, and too large for a board."""
    return looks_channels_first(shape) and min(shape[1:]) >= _PICTURE


def start_of(space: Space[Any]) -> Any:
    """Return the start of a Discrete or MultiDiscrete space; None where it is 0, and for all other spaces."""
    if isinstance(space, spaces.Discrete):
        return int(space.start) or None
    if isinstance(space, spaces.MultiDiscrete) and np.any(space.start):
        return np.asarray(space.start, np.int64)
    return None


def choices_of(space: Space[Any]) -> Any:
    """Return what the stored numbers of a discrete space stay below, for each of several; None for a Box."""
    return 2 if isinstance(space, spaces.MultiBinary) else getattr(space, "nvec", getattr(space, "n", None))


def _walk(space: Space[Any], path: tuple[str | int, ...], role: Role) -> Iterator[Leaf]:
    if not isinstance(space, Space):
        raise _refused(path, role, f"is {shown(space)}, which is not a gymnasium.Space")
    if len(path) > MAX_DEPTH:
        raise _refused(path[:3], role, f"has more than {MAX_DEPTH} levels below it")
    if isinstance(space, spaces.Dict):
        for key, child in space.spaces.items():
            _check_key(key, path, role)
            yield from _walk(child, (*path, key), role)
    elif isinstance(space, spaces.Tuple):
        for index, child in enumerate(space.spaces):
            yield from _walk(child, (*path, index), role)
    else:
        problem = _leaf_problem(space)
        if problem:
            raise _refused(path, role, f"is {problem}, which Maze does not support")
        yield Leaf("/".join(map(str, path)) or role, path, space)
    if isinstance(space, spaces.Dict | spaces.Tuple) and not space.spaces:
        raise _refused(path, role, f"is an empty {type(space).__name__}: there is nothing in it to learn from")


def _leaf_problem(space: Space[Any]) -> str | None:
    """Return what is wrong with a leaf space, as the end of a sentence; None where it is supported."""
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary) and len(space.shape or ()) != 1:
        return f"a {type(space).__name__} of shape {space.shape}, not of one dimension"
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        texts = space.dtype is not None and np.dtype(space.dtype).kind == "U"
        return f"a {type(space).__name__} space" + (" of texts" if texts and not isinstance(space, spaces.Text) else "")
    if math.prod(space.shape or ()) > MAX_ENTRIES:
        return f"a {type(space).__name__} of {math.prod(space.shape or ()):,} entries"
    if 0 in (space.shape or ()):
        return f"a {type(space).__name__} of shape {space.shape}"
    if np.dtype(space.dtype).kind not in "fiub":
        return f"a {type(space).__name__} of dtype {space.dtype}"
    return None


def _check_key(key: object, path: tuple[str | int, ...], role: Role) -> None:
    if not isinstance(key, str) or not key or "/" in key or "." in key:
        raise ConfigError(
            f"the {role} space{_at(path)} has the key {shown(key)}: keys are non-empty text without '/' and '.'",
            "env",
            f"Rename it in the environment, or in a gymnasium.{_WRAPPERS[role]}.",
        )


def _refused(path: tuple[str | int, ...], role: Role, problem: str) -> ConfigError:
    hint = (
        f"Wrap the environment in a gymnasium.{_WRAPPERS[role]} that turns it into Box, Discrete, MultiDiscrete, "
        "MultiBinary, "
        "Dict or Tuple."
    )
    if role == "observation" and path:
        keys = argument(f"wrappers.0.keys=[{'/'.join(map(str, path))}]")
        hint = f"To drop it: --wrappers drop --set {keys}\n{hint}"
    if role == "observation" and ("a Text space" in problem or " of texts" in problem):
        hint = f"To convert its words to numbers: --wrappers tokenize\n{hint}"
    return ConfigError(f"the {role} space{_at(path)} {problem}", where="env", hint=hint)


def _at(path: tuple[str | int, ...]) -> str:
    return f" at '{'/'.join(map(str, path))}'" if path else ""
