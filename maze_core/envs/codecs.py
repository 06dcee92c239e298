"""Convert a user's observations and actions to the trees inside Maze, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from maze_core.envs.spaces import Leaf, Specs, allocate, leaf_spec, leaves, start_of
from maze_core.envs.vector import Tree
from maze_core.errors import ConfigError


def nest(space: Space[Any], values: Mapping[str, Any], key: str) -> Any:
    """Return the leaves' values in the user's structure; `key`: the key of a single space (or of this branch)."""
    return _nest(space, values, "", key)


def _nest(space: Space[Any], values: Mapping[str, Any], prefix: str, single: str) -> Any:
    if isinstance(space, spaces.Dict):
        return {k: _nest(child, values, f"{prefix}{k}/", single) for k, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_nest(child, values, f"{prefix}{i}/", single) for i, child in enumerate(space.spaces))
    return values[prefix[:-1] or single]


def _follow(value: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


class ObservationCodec:
    """Writes a user's observations into trees."""

    specs: Specs
    """How each leaf is stored."""
    plain: str | None
    """The key of an observation that is one array, stored unchanged: `out[plain][i] = obs` writes it. Else None."""
    float_keys: tuple[str, ...]
    """The leaves that can hold NaN or infinity."""

    def __init__(self, space: Space[Any]) -> None:
        self._space = space
        self._leaves = leaves(space, "observation")
        self.specs = {leaf.key: leaf_spec(leaf.space, "observation") for leaf in self._leaves}
        self._slots = [(leaf.key, leaf.path, start_of(leaf.space)) for leaf in self._leaves]
        key, path, start = self._slots[0]
        self.plain = key if not path and start is None else None
        self.float_keys = tuple(key for key, spec in self.specs.items() if spec.dtype.kind == "f")

    def write(self, out: Tree, index: Any, observation: Any) -> None:
        """Copy an observation into row `index` of `out`; also batched observations into a slice."""
        for key, path, start in self._slots:
            value = observation
            for part in path:
                value = value[part]
            out[key][index] = value if start is None else value - start

    def tree(self, observation: Any) -> Tree:
        """Return one observation as a tree of new arrays with leaves `[1, …]`."""
        tree = allocate(self.specs, (1,))
        self.write(tree, 0, observation)
        return tree

    def nested(self, tree: Tree, index: int) -> Any:
        """Return row `index` of a tree in the user's structure, units and dtypes (float64 has float32's precision)."""
        values = {}
        for leaf in self._leaves:
            start = start_of(leaf.space)
            value = tree[leaf.key][index] if start is None else tree[leaf.key][index] + start
            values[leaf.key] = np.array(value, leaf.space.dtype)[()]
        return nest(self._space, values, "observation")

    def check(self, observation: Any, batch: tuple[int, ...] = ()) -> None:
        """Compare an observation (or a batch of them) with the space that the environment declares.

        Raises:
            ConfigError: the structure, a shape or a dtype differs, or a value is outside a discrete space.
        """
        _check_structure(self._space, observation, ())
        for leaf in self._leaves:
            problem = _value_problem(leaf, _follow(observation, leaf.path), batch)
            if problem:
                raise _mismatch(leaf.key, problem)


class ActionCodec:
    """Turns action trees into the actions a user's environment expects, and back."""

    specs: Specs
    """How each leaf is stored."""

    def __init__(self, space: Space[Any]) -> None:
        self._space = space
        self._leaves = leaves(space, "action")
        self.specs = {leaf.key: leaf_spec(leaf.space, "action") for leaf in self._leaves}
        self._natives = {leaf.key: _native(leaf.space) for leaf in self._leaves}
        self._splits = {leaf.key: _split(leaf.space) for leaf in self._leaves}
        single = not self._leaves[0].path
        self.rows: Callable[[Tree], list[Any]] = self._single_rows() if single else self._nested_rows
        """Return the N actions of a tree with leaves `[N, …]`, each in the user's structure and its own memory."""

    def batch(self, actions: Tree) -> Any:
        """Return a tree with leaves `[N, …]` as one batched action in the user's structure (gymnasium.vector)."""
        natives = {key: native(actions[key]) for key, native in self._natives.items()}
        return nest(self._space, natives, "action")

    def tree(self, action: Any) -> Tree:
        """Return one action of the user as a tree of new arrays with leaves `[1, …]`."""
        tree = allocate(self.specs, (1,))
        for leaf in self._leaves:
            value, start = _follow(action, leaf.path), start_of(leaf.space)
            tree[leaf.key][0] = value if start is None else value - start
        return tree

    def _single_rows(self) -> Callable[[Tree], list[Any]]:
        key = self._leaves[0].key
        native, split, space = self._natives[key], self._splits[key], self._leaves[0].space
        if isinstance(space, spaces.Discrete) and start_of(space) is None:
            return lambda actions: list(actions[key])
        return lambda actions: split(native(actions[key]))

    def _nested_rows(self, actions: Tree) -> list[Any]:
        columns = {key: self._splits[key](native(actions[key])) for key, native in self._natives.items()}
        count = len(next(iter(columns.values())))
        return [nest(self._space, {key: column[i] for key, column in columns.items()}, "action") for i in range(count)]


def _native(space: Space[Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from a stored batch `[N, …]` to a new one in the environment's own units and dtype."""
    start = 0 if start_of(space) is None else start_of(space)
    if not isinstance(space, spaces.Box):
        return lambda values: (values + start).astype(space.dtype, copy=False)
    low, high, dtype = np.asarray(space.low), np.asarray(space.high), np.dtype(space.dtype)

    def clipped(values: np.ndarray) -> np.ndarray:
        # Cast before clipping: values must stay within a bound that float32 rounds outwards.
        lifted: np.ndarray = np.maximum(values.astype(dtype, copy=False), low)
        np.minimum(lifted, high, out=lifted)
        return lifted

    def rounded(values: np.ndarray) -> np.ndarray:
        # Clipped as float64 first, since casting a float beyond an integer's range is undefined.
        whole: np.ndarray = np.rint(np.clip(values.astype(np.float64), low, high)).astype(dtype)
        np.clip(whole, low, high, out=whole)
        return whole

    return clipped if np.dtype(dtype).kind == "f" else rounded


def _split(space: Space[Any]) -> Callable[[np.ndarray], list[Any]]:
    """Return a function from a batch `[N, …]` to its rows: numpy integers for Discrete, as in `sample`, else arrays."""
    # gymnasium's Discrete.contains, which many environments call, is slower for a Python integer.
    if isinstance(space, spaces.Box) and space.shape == ():
        return lambda values: [values[i, ...] for i in range(len(values))]
    return lambda values: list(values)


def _check_structure(space: Space[Any], value: Any, path: tuple[str | int, ...]) -> None:
    place = "/".join(map(str, path)) or "observation"
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping) or set(value) != set(space.spaces):
            got = sorted(map(str, value)) if isinstance(value, Mapping) else f"a {type(value).__name__}"
            raise _mismatch(place, f"a dict with the keys {sorted(space.spaces)} is declared, the value is {got}")
        for key, child in space.spaces.items():
            _check_structure(child, value[key], (*path, key))
    elif isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
            raise _mismatch(place, f"a tuple of {len(space.spaces)} is declared, the value is {value!r:.80}")
        for index, child in enumerate(space.spaces):
            _check_structure(child, value[index], (*path, index))


def _value_problem(leaf: Leaf, value: Any, batch: tuple[int, ...]) -> str | None:
    space = leaf.space
    try:
        array = np.asarray(value)
    except ValueError:
        return f"{value!r:.80} is not an array"
    shape = batch + tuple(space.shape or ())
    if array.shape != shape:
        return f"shape {shape} is declared, the value has shape {array.shape}"
    if isinstance(space, spaces.Box):
        declared = np.dtype(space.dtype)
        # A wider float is stored as float32 anyway; any other lossy cast would change the values silently.
        if not np.can_cast(array.dtype, declared, "same_kind" if declared.kind == "f" else "safe"):
            return f"dtype {declared} is declared, the value has dtype {array.dtype}"
        return None
    if array.dtype.kind not in "iub":
        return f"integers are declared, the value has dtype {array.dtype}"
    start = start_of(space)
    values = array.astype(np.int64) - (0 if start is None else start)
    if np.any(values < 0) or np.any(values >= _categories(space)):
        return f"{space} is declared, the value is {value!r:.80}"
    return None


def _categories(space: Space[Any]) -> Any:
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    return space.nvec if isinstance(space, spaces.MultiDiscrete) else 2


def _mismatch(key: str, problem: str) -> ConfigError:
    return ConfigError(
        f"the first observation does not match the observation space of the environment at '{key}': {problem}",
        where="env",
        hint="Correct the environment, or its observation_space.",
    )
