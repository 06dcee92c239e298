"""Convert a user's observations and actions to the trees inside Maze, and back; storing changes no value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from maze_core.base.errors import ConfigError
from maze_core.base.tree import Tree, take_rows
from maze_core.envs.checks import CORRECT_IT, MisfitError, UnlikeSpaceError, check_finite
from maze_core.envs.spaces import Leaf, Specs, allocate, choices_of, leaf_spec, leaves, start_of, whole_bounds

_FEW = 512
"""Bits up to which Python checks them faster than NumPy."""


def nest(space: Space[Any], values: Mapping[str, Any], key: str, prefix: str = "") -> Any:
    """Return the leaves' values in the user's structure.

    `key`: that of a single space, or of the branch; `prefix`: what the keys of the branch begin with.
    """
    if isinstance(space, spaces.Dict):
        return {k: nest(child, values, key, f"{prefix}{k}/") for k, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(nest(child, values, key, f"{prefix}{i}/") for i, child in enumerate(space.spaces))
    return values[prefix[:-1] or key]


def follow(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return the member of a nested value at a leaf's path; raises LookupError or TypeError where there is none."""
    for part in path:
        value = value[part]
    return value


class LeafValues:
    """The values of one leaf: their shape, their dtype and their range.

    A value of the declared dtype and shape is stored as it is. Floats of any width may stand for floats, and integers
    for floats; integers and booleans of any width may stand for integers if the values fit. Nothing else is stored:
    no float as an integer, and no value in another shape.
    """

    def __init__(self, leaf: Leaf) -> None:
        space = leaf.space
        self.key, self.path = leaf.key, leaf.path
        self.declared: np.dtype[Any] = np.dtype(space.dtype)
        self.shape: tuple[int, ...] = tuple(space.shape or ())
        self._space, self._stored = space, leaf_spec(space).dtype
        start = start_of(space)
        self._start: Any = 0 if start is None else start
        self.as_is = start is None and not isinstance(space, spaces.Discrete)
        """True where arrays of the declared dtype and shape are stored unchanged."""
        self.numbers = range(int(space.n)) if isinstance(space, spaces.Discrete) else None
        """The stored numbers of a Discrete space."""
        self._known = {self.declared} if self.as_is else set()
        """Dtypes of which every value fits."""
        self._bits = isinstance(space, spaces.MultiBinary)
        self.is_ranged = self._bits or isinstance(space, spaces.MultiDiscrete)
        """True for arrays of whole numbers of which some are not in the space."""
        self._below: Any = choices_of(space)
        """What stored whole numbers stay below."""

    def stored(self, value: Any, batch: tuple[int, ...] = ()) -> Any:
        """Return a value (or a batch of them) as it is stored. The range of a leaf that `is_ranged` is not checked.

        Raises:
            UnlikeSpaceError: its shape or dtype is another one, or the stored dtype cannot hold it.
        """
        if self.numbers is None:
            array = self._array(value, batch)
            return array if self.as_is else np.subtract(array, self._start, dtype=np.int64)
        if batch:
            rows = np.subtract(self._array(value, batch), self._start, dtype=np.int64)
            self.check_range(rows)
            return rows
        whole = isinstance(value, int | np.integer)  # mostly without the calls
        number: int = int(value if whole else self._array(value, ())) - self._start
        if number not in self.numbers:
            raise self._outside(number)
        return number

    def check_range(self, rows: np.ndarray) -> None:
        """Check the range of stored values `[N, …]`.

        Raises:
            UnlikeSpaceError: a value is not in the space.
        """
        if self._bits and rows.size <= _FEW and not rows.tobytes().strip(b"\0\1"):
            return
        inside = (rows >= 0) & (rows < self._below)
        if not inside.all():
            row = int(np.flatnonzero(~inside.reshape(len(rows), -1).all(1))[0])
            raise self._outside(rows[row], row)

    def _array(self, value: Any, batch: tuple[int, ...]) -> np.ndarray:
        """Return a value as an array of the right shape and of a dtype that fits."""
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, RuntimeError):
            raise self.misfit(f"{value!r:.80} is not an array") from None
        shape = (*batch, *self.shape)
        if array.shape != shape:
            raise self.misfit(f"shape {shape} is declared, the value has shape {array.shape}")
        if array.dtype not in self._known:
            self._admit(array)
        return array

    def misfit(self, problem: str, row: int = 0) -> UnlikeSpaceError:
        """Return the error for a value that cannot be stored unchanged."""
        return UnlikeSpaceError(self.key, problem, row)

    def _admit(self, array: np.ndarray) -> None:
        """Refuse values of this dtype unless they are stored unchanged; remember a dtype of which all are."""
        kind, given = self.declared.kind, array.dtype
        if kind == "f":
            if not np.can_cast(given, self.declared, "same_kind"):
                raise self._other_dtype(given)
            self._known.add(given)
        elif given.kind not in "iub":
            raise self._other_dtype(given)
        elif np.can_cast(given, self._stored, "safe"):
            self._known.add(given)
        elif (changed := array.astype(self._stored) != array).any():
            place = int(np.flatnonzero(changed)[0])
            row = place * len(array) // array.size if array.ndim > len(self.shape) else 0
            value = array.reshape(-1)[place]
            raise self.misfit(f"dtype {self.declared} is declared, which cannot hold {value}", row)

    def _outside(self, value: Any, row: int = 0) -> UnlikeSpaceError:
        return self.misfit(f"{self._space} is declared, the value is {value + self._start!s:.80}", row)

    def _other_dtype(self, given: np.dtype[Any]) -> UnlikeSpaceError:
        declared = f"dtype {self.declared} is" if isinstance(self._space, spaces.Box) else "integers are"
        return self.misfit(f"{declared} declared, the value has dtype {given}")


class ObservationCodec:
    """Writes a user's observations into trees, and refuses those that would change by being stored."""

    specs: Specs
    """How each leaf is stored."""
    plain: tuple[Any, str, np.dtype[Any], tuple[int, ...], range]
    """How most observations can be written by `out[key][i] = obs`: their type, the key, dtype and shape of an array,
    the values of an int. The type is None where there is no such way."""
    float_keys: tuple[str, ...]
    """The leaves that can hold NaN or infinity."""
    ranged: tuple[LeafValues, ...]
    """The leaves of arrays in which not every stored value is in the space."""

    def __init__(self, space: Space[Any]) -> None:
        self._space = space
        self._leaves = leaves(space, "observation")
        self.specs = {leaf.key: leaf_spec(leaf.space, "observation") for leaf in self._leaves}
        self._values = [LeafValues(leaf) for leaf in self._leaves]
        self._slots = [
            (leaf.key, leaf.path, leaf.declared if leaf.as_is else None, leaf.shape, leaf) for leaf in self._values
        ]
        self._branches = list(_branches(space, ()))
        first = self._values[0]
        kind = None if first.path or start_of(space) is not None else np.ndarray if first.as_is else int
        self.plain = (kind, first.key, first.declared, first.shape, first.numbers or range(0))
        self.float_keys = tuple(key for key, spec in self.specs.items() if spec.dtype.kind == "f")
        self.ranged = tuple(leaf for leaf in self._values if leaf.is_ranged)

    def write(self, out: Tree, index: int, observation: Any) -> None:
        """Copy an observation into row `index` of `out`; `wrong` checks the values of floats and of arrays.

        Raises:
            MisfitError: its structure is another one, or a leaf's dtype or shape, or a leaf cannot hold its value.
        """
        try:
            for path, count in self._branches:
                if len(follow(observation, path)) != count:
                    raise self._unlike(observation)
            for key, path, dtype, shape, leaf in self._slots:
                value = observation
                for part in path:
                    value = value[part]
                if type(value) is np.ndarray and value.dtype is dtype and value.shape == shape:
                    out[key][index] = value
                else:
                    out[key][index] = leaf.stored(value)
        except (LookupError, TypeError, AttributeError, OverflowError) as error:
            raise self._unlike(observation) from error

    def write_all(self, out: Tree, observations: Any) -> None:
        """Copy the batched observations of a natively vectorised environment into all rows; errors as for `write`."""
        try:
            for leaf in self._values:
                target = out[leaf.key]
                target[...] = leaf.stored(follow(observations, leaf.path), target.shape[:1])
        except (LookupError, TypeError, AttributeError) as error:
            raise self._unlike(observations) from error

    def wrong(self, tree: Tree, what: str = "observation") -> tuple[int, MisfitError] | None:
        """Return the first row of written observations `[N, …]` with a value that cannot be used, and its error.

        Such a value is not finite, or outside of a discrete space.
        """
        bad = check_finite(tree, self.float_keys)
        if bad:
            key, row = bad
            return row, MisfitError(f"a value of {what} '{key}' that is not finite: {tree[key][row]!s:.80}")
        for leaf in self.ranged:
            try:
                leaf.check_range(tree[leaf.key])
            except UnlikeSpaceError as error:
                return error.row, error
        return None

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
        found = self._misfit(observation, batch)
        if found is not None:
            raise ConfigError(
                "the first observation does not match the observation space of the environment at "
                f"'{found.key}': {found.problem}",
                where="env",
                hint=CORRECT_IT,
            ) from found

    def problem(self, observation: Any, batch: tuple[int, ...] = ()) -> tuple[str, str] | None:
        """Return where an observation (or a batch of them) is not as its space declares, and how; None: it is.

        The structure, shapes, dtypes, and the values of discrete leaves are compared.
        """
        found = self._misfit(observation, batch)
        return None if found is None else (found.key, found.problem)

    def _misfit(self, observation: Any, batch: tuple[int, ...] = ()) -> UnlikeSpaceError | None:
        try:
            _check_structure(self._space, observation, ())
            for leaf in self._values:
                value = leaf.stored(follow(observation, leaf.path), batch)
                if leaf in self.ranged:
                    rows = np.asarray(value, self.specs[leaf.key].dtype).reshape(-1, *leaf.shape)
                    leaf.check_range(rows)
        except UnlikeSpaceError as error:
            return error
        return None

    def _unlike(self, observation: Any) -> UnlikeSpaceError:
        """Return the error for an observation whose structure differs from the space's."""
        declared = UnlikeSpaceError("observation", f"{self._space} is declared, the value is {observation!r:.80}")
        return self._misfit(observation) or declared


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
        if not (first := self._leaves[0]).path:
            return self._natives[first.key](actions[first.key])
        natives = {key: native(actions[key]) for key, native in self._natives.items()}
        return nest(self._space, natives, "action")

    def executed(self, actions: Tree) -> Tree:
        """Return a tree with leaves `[N, …]` as environments execute it, in new arrays: rounded, within the bounds."""
        boxes = {leaf.key for leaf in self._leaves if isinstance(leaf.space, spaces.Box)}
        done = {key: self._natives[key](actions[key]) if key in boxes else actions[key] for key in self.specs}
        return {key: leaf.astype(self.specs[key].dtype) for key, leaf in done.items()}

    def tree(self, action: Any) -> Tree:
        """Return one action of the user as a tree of new arrays with leaves `[1, …]`."""
        tree = allocate(self.specs, (1,))
        for leaf in self._leaves:
            value, start = follow(action, leaf.path), start_of(leaf.space)
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
        return [nest(self._space, take_rows(columns, i), "action") for i in range(count)]


def _native(space: Space[Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from a stored batch `[N, …]` to a new one in the environment's own units and dtype."""
    start = 0 if start_of(space) is None else start_of(space)
    if not isinstance(space, spaces.Box):
        return lambda values: (values + start).astype(space.dtype, copy=False)
    low, high, dtype = np.asarray(space.low), np.asarray(space.high), np.dtype(space.dtype)
    castable = () if dtype.kind == "f" else whole_bounds(space)

    def clipped(values: np.ndarray) -> np.ndarray:
        # Cast before clipping: values must stay within a bound that float32 rounds outwards.
        lifted: np.ndarray = np.maximum(values.astype(dtype, copy=False), low)
        np.minimum(lifted, high, out=lifted)
        return lifted

    def rounded(values: np.ndarray) -> np.ndarray:
        # Clipped as float64 first, since casting a float beyond an integer's range is undefined.
        whole: np.ndarray = np.rint(np.clip(values.astype(np.float64), *castable)).astype(dtype)
        np.clip(whole, low, high, out=whole)
        return whole

    return clipped if np.dtype(dtype).kind == "f" else rounded


def _split(space: Space[Any]) -> Callable[[np.ndarray], list[Any]]:
    """Return a function from a batch `[N, …]` to its rows: numpy integers for Discrete, as in `sample`, else arrays."""
    # gymnasium's Discrete.contains, which many environments call, is slower for a Python integer.
    if isinstance(space, spaces.Box) and space.shape == ():
        return lambda values: [values[i, ...] for i in range(len(values))]
    return lambda values: list(values)


def _branches(space: Space[Any], path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield the path of each Dict and Tuple of a space, and the number of its members."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        yield path, len(space.spaces)
        members = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, child in members:
            yield from _branches(child, (*path, key))


def _check_structure(space: Space[Any], value: Any, path: tuple[str | int, ...]) -> None:
    place = "/".join(map(str, path)) or "observation"
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping) or value.keys() != space.spaces.keys():
            got = sorted(map(str, value)) if isinstance(value, Mapping) else f"a {type(value).__name__}"
            declared = f"a dict with the keys {sorted(space.spaces)} is declared"
            raise UnlikeSpaceError(place, f"{declared}, the value is {got}")
        for key, child in space.spaces.items():
            _check_structure(child, value[key], (*path, key))
    elif isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
            declared = f"a tuple of {len(space.spaces)} is declared"
            raise UnlikeSpaceError(place, f"{declared}, the value is {value!r:.80}")
        for index, child in enumerate(space.spaces):
            _check_structure(child, value[index], (*path, index))
