"""Turns an object with a known interface into an environment of gymnasium."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any, get_origin, get_type_hints

import gymnasium

from maze_core.envs.interfaces.dm import DmApi
from maze_core.envs.interfaces.old_api import OldApi, is_old, with_old_inside
from maze_core.plugins.other_interfaces import is_of_dm_env, is_of_gym

_BASES = {"gymnasium": "Env", "gym": "Env", "dm_env": "Environment"}
"""The base class of environments, by package."""


def as_gymnasium(env: Any, old_api: bool | None = None, seeded: bool = False) -> Any:
    """Return an environment of gymnasium for one of gym, of dm_env, or with an old reset; anything else as it is.

    Args:
        env: any object.
        old_api: take it for one of gym's old interface; None: where its reset takes no seed.
        seeded: its randomness was fixed when it was built.
    """
    if isinstance(env, gymnasium.Env):
        return with_old_inside(env) if old_api or (old_api is None and is_old(env)) else env
    if is_of_gym(env):
        return OldApi(env, seeded)
    if is_of_dm_env(env):
        return DmApi(env, seeded)
    return env


def makes_environments(found: Any) -> bool:
    """Return True for a class of environments with one agent, and a function that is annotated to return one.

    It is decided without a call: a configuration may come from others, and must not call anything else.
    """
    kind = _made(found)
    return kind is not None and _is_environment(kind) and not (kind is found and inspect.isabstract(found))


def is_of(found: Any, package: str) -> bool:
    """Return True for a class, or a function that is annotated to return one, that derives from a package's."""
    return any(each.__module__.partition(".")[0] == package for each in getattr(_made(found), "__mro__", ()))


def _made(found: Any) -> type | None:
    """Return a class itself, and for a function the class that it is annotated to return; None where there is none."""
    if isinstance(found, FunctionType):
        try:
            found = get_type_hints(found).get("return")
        except Exception:  # noqa: BLE001 — an annotation may be any expression
            return None
        found = get_origin(found) or found
    return found if isinstance(found, type) else None


def takes_seed(constructor: Any) -> bool:
    """Return True where a class or function has an argument `seed`."""
    try:
        return "seed" in inspect.signature(constructor).parameters
    except (TypeError, ValueError):
        return False


def _is_environment(kind: type) -> bool:
    bases = {(each.__module__.partition(".")[0], each.__name__) for each in kind.__mro__}
    return any(base in bases for base in _BASES.items()) and not any(name == "Wrapper" for _, name in bases)
