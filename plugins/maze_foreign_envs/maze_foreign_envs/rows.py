"""What natively vectorised environments return for their N rows, and what is attached to these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from maze_core.envs.checks import MisfitError
from maze_core.envs.events import EVENTS, attribute, chain
from maze_core.envs.wrappers import VectorRewardMeter
from maze_core.plugins.extensions import installed

_FLAG = np.dtype(np.bool_)


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


def rows_of_infos(info: Mapping[str, Any], names: Sequence[str], rows: int, ended: np.ndarray) -> list[dict[str, Any]]:
    """Return the entries of N environments' common `info` by row, as gymnasium's vectorised environments write it.

    `ended`: rows whose last step is in `final_info`, where there is one.
    """
    found = [_row_of(info, names, row, rows) for row in range(rows)]
    final = info.get("final_info")
    if isinstance(final, Mapping):
        for row in ended.tolist():
            found[row] = _row_of(final, names, row, rows)
    return found


def _row_of(info: Mapping[str, Any], names: Sequence[str], row: int, rows: int) -> dict[str, Any]:
    """Return the entries that a row has reported: `_NAME` says which rows have."""
    told = (name for name in names if name in info and np.broadcast_to(info.get(f"_{name}", True), rows)[row])
    return {name: np.broadcast_to(info[name], rows)[row] for name in told}


def vector_reward_meter(env: gymnasium.vector.VectorEnv[Any, Any, Any]) -> VectorRewardMeter | None:
    """Return the innermost meter of a natively vectorised environment; None where there is none.

    An env source that changes rewards itself puts a meter below, so that reported returns are raw.
    """
    found = None
    while isinstance(env, gymnasium.vector.VectorWrapper):
        if isinstance(env, VectorRewardMeter):
            found = env
        env = env.env
    return found


def events_of_rows(env: Any, rows: int) -> list[list[Any]]:
    """Return the events of each row of a natively vectorised environment.

    Raises:
        ConfigError: a layer has a list of another length, or environments share an object.
    """
    there = any(attribute(layer, name) is not None for layer in chain(env) for name in ("events", "envs"))
    find = installed(EVENTS, "events_of_rows") if there else None
    return [[] for _ in range(rows)] if find is None else find(env, rows)
