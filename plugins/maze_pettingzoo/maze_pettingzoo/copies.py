"""Copies of PettingZoo's environments in the middle of an episode."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from gymnasium import Space

_ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None), type})
"""Types of values that cannot change."""


def copied(env: Any, memo: dict[int, Any]) -> Any:
    """Return a copy of an environment, a wrapper or another plain object; `memo` as of `copy.deepcopy`.

    `copy.deepcopy` itself would begin anew: these environments are pickled as the arguments of their constructors.
    Spaces are shared.
    """
    twin = memo[id(env)] = object.__new__(type(env))
    twin.__dict__ |= {name: v if type(v) in _ATOMS else _copied(v, memo) for name, v in vars(env).items()}
    return twin


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """Return what `copy.deepcopy` would, faster for what the state of a game consists of."""
    if id(value) in memo:
        return memo[id(value)]
    kind: Any = type(value)
    twin: Any
    if kind is list:
        twin = memo[id(value)] = []
        twin += [v if type(v) in _ATOMS else _copied(v, memo) for v in value]
    elif kind is dict:
        twin = memo[id(value)] = {}
        twin |= {key: v if type(v) in _ATOMS else _copied(v, memo) for key, v in value.items()}
    elif kind is np.ndarray and not value.dtype.hasobject:
        twin = memo[id(value)] = value.copy()
    elif isinstance(value, np.generic | Space) or (kind is tuple and all(type(v) in _ATOMS for v in value)):
        twin = value
    elif hasattr(value, "possible_agents") or (kind.__module__.startswith("pettingzoo") and _is_plain(kind)):
        twin = copied(value, memo)
    else:
        twin = copy.deepcopy(value, memo)
    return twin


def _is_plain(kind: Any) -> bool:
    """Return True for a class of Python whose objects are what their attributes are."""
    return bool(kind.__new__ is object.__new__ and kind.__dictoffset__)
