"""Checks of what an environment returns, cheap enough for every step, and the errors of what is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from maze_core.base.errors import RunError
from maze_core.base.terminal_text import shown
from maze_core.base.tree import Tree
from maze_core.plugins.discovery import missing

CORRECT_IT = "Correct the environment, or its observation_space."

_FLAG = np.dtype(np.bool_)
_LARGEST = float(np.finfo(np.float32).max)


class MisfitError(ValueError):
    """A returned value that cannot be used as it is. The message is the end of a sentence: `… returned` it.

    Args:
        message: what was returned.
        row: the first row in which it is wrong, of batched values.
    """

    def __init__(self, message: str, row: int = 0) -> None:
        super().__init__(message)
        self.row = row


class VectorRewardError(MisfitError):
    """A reward of several numbers: one for each objective, or for each agent.

    Args:
        reward: what was returned.
        count: how many numbers it has.
        members: the parts of the action space, 0 where it has none; as many as numbers are those of agents.
    """

    def __init__(self, reward: object, count: int, members: int) -> None:
        super().__init__(f"a reward of {count} numbers, not one: {reward!r:.80}")
        weights = ",".join(["1"] * count)
        self.hint = f"To weigh them: --wrappers scalarize --set 'wrappers.0.weights=[{weights}]'"
        if count == members:
            advice = missing("env", "pettingzoo")
            agents = f"If they belong to {count} agents, as the parts of its action space do: --env-source pettingzoo"
            weighed = "" if isinstance(reward, Mapping) else f"\nFor one policy that acts for all. {self.hint}"
            self.hint = f"{agents}. {advice}{weighed}" if advice else agents + weighed


class UnlikeSpaceError(MisfitError):
    """An observation that does not match its space.

    Args:
        key: the leaf or the branch at which it does not.
        problem: what is wrong there.
        row: as for a `MisfitError`.
    """

    def __init__(self, key: str, problem: str, row: int = 0) -> None:
        place = f"an observation that does not match the observation space at '{key}'"
        super().__init__(f"{place}: {problem}\n{CORRECT_IT}", row)
        self.key, self.problem = key, problem


def all_finite(array: np.ndarray) -> bool:
    """Return True when an array of floats has neither NaN nor infinity."""
    # A sum of squares is finite only where all values are, and costs a third of `isfinite(array).all()`.
    # It overflows for huge finite values, so the slow test decides then.
    flat = array if array.ndim == 1 else array.ravel()
    return math.isfinite(flat.dot(flat)) or bool(np.isfinite(array).all())


def first_bad_row(array: np.ndarray) -> int:
    """Return the first row of `[N, …]` with NaN or infinity."""
    return int(np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0])


def non_finite(what: str, place: str, value: object) -> RunError:
    """Return the error for a number that is not finite."""
    return RunError(f"{place} returned a {what} that is not finite: {str(value)[:80]}")


def is_number(value: Any) -> bool:
    """Return True for a single real number; texts and arrays of one number are none."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            float(value)
    except (ValueError, TypeError, RuntimeError, OverflowError):
        return False
    return array.ndim == 0 and array.dtype.kind in "biufO"


def fits_float32(value: float) -> bool:
    """Return True for a number that a float32 holds: not nan, not infinite, and not beyond the largest one."""
    return abs(value) <= _LARGEST


def not_a_number(value: object, action_space: Space[Any] | None = None) -> MisfitError:
    """Return the error for a reward that is no number; `action_space`: of the environment with a single agent."""
    members = len(action_space.spaces) if isinstance(action_space, spaces.Tuple | spaces.Dict) else 0
    if isinstance(value, np.ndarray) and value.size > 1 and value.dtype.kind in "biuf":
        return VectorRewardError(value, value.size, members)
    several = list(value.values()) if isinstance(value, Mapping) and members else value
    if isinstance(several, list | tuple) and len(several) > 1 and all(map(is_number, several)):
        given = value if isinstance(value, Mapping) else np.asarray(value)
        return VectorRewardError(given, len(several), members)
    return MisfitError(f"a reward that is not a number: {value!r:.80}")


def is_set(name: str, flag: Any) -> bool:
    """Return the flag `terminated` or `truncated` as a boolean.

    Raises:
        MisfitError: it is neither a boolean nor 0 or 1.
    """
    if type(flag) in (bool, np.bool_):
        return bool(flag)
    if is_number(flag) and flag in (0, 1):
        return bool(flag)
    raise MisfitError(f"`{name}` that is not a boolean: {flag!r:.80}")


def each_row(name: str, values: Any, rows: int) -> np.ndarray:
    """Return a number for each of N rows, `[N]`; a single one counts for all.

    Raises:
        MisfitError: it has another shape, or they are no numbers.
    """
    array = values if type(values) is np.ndarray else np.asarray(values)
    if array.shape not in ((rows,), ()) or array.dtype.kind not in "biuf":
        raise MisfitError(f"`{name}` of shape {array.shape} and dtype {array.dtype} instead of {rows} numbers")
    return array


def flags_of(name: str, values: Any, rows: int) -> np.ndarray:
    """Return the flags `terminated` or `truncated` of N rows, `[N]`; errors as for `each_row`."""
    if type(values) is np.ndarray and values.dtype is _FLAG and values.shape == (rows,):
        return values  # as almost always
    array = each_row(name, values, rows)
    if array.dtype.kind != "b":
        if (odd := (array != 0) & (array != 1)).any():
            raise MisfitError(f"`{name}` that is not a boolean: {array[odd].ravel()[0]!r}", int(np.flatnonzero(odd)[0]))
        array = array.astype(np.bool_)
    return array if array.ndim else np.broadcast_to(array, (rows,))


def check_finite(tree: Tree, keys: tuple[str, ...]) -> tuple[str, int] | None:
    """Return the first leaf among `keys` (leaves `[N, …]`) with a non-finite number, and its row; else None."""
    for key in keys:
        if not all_finite(tree[key]):
            return key, first_bad_row(tree[key])
    return None


def check_info(info: object) -> None:
    """Raise MisfitError for an info that is no dict; one without entries says that there is nothing to tell."""
    if not isinstance(info, Mapping):
        raise MisfitError(f"an info that is no dict: {shown(info)}\nNext: return {{}} where there is nothing to tell.")


def is_over(terminated: Any, truncated: Any) -> bool:
    """Return True if one of the flags is set; errors as of `is_set`."""
    return is_set("terminated", terminated) | is_set("truncated", truncated)
