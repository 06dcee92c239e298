"""Environments that are built together and must have the same spaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError
from maze_core.envs.spaces import ROLES, leaves
from maze_core.plugins.closing import release

if TYPE_CHECKING:
    import gymnasium

    MakeEnv = Callable[[int], gymnasium.Env[Any, Any]]


def build_alike(make: MakeEnv, indices: range) -> list[gymnasium.Env[Any, Any]]:
    """Return the environments of these numbers; when one fails, close those already built.

    Raises:
        ConfigError: they have different spaces, or two of them are one.
    """
    envs: list[gymnasium.Env[Any, Any]] = []
    try:
        for index in indices:
            envs.append(make(index))
            for role in ROLES:
                name = f"{role}_space"
                first, other = getattr(envs[0], name), getattr(envs[-1], name)
                leaves(other, role)  # unsupported spaces cannot always be compared
                if first != other:
                    raise ConfigError(f"environment {index} has the {name} {other}, environment 0 {first}", where="env")
        check_apart(envs)
    except BaseException:
        release(*envs)
        raise
    return envs


def check_apart(envs: Iterable[Any]) -> None:
    """Raise ConfigError if two of these environments are the same object: a step of one would be one of the other."""
    seen: set[int] = set()
    for number, env in enumerate(envs):
        innermost = id(getattr(env, "unwrapped", env))
        if innermost in seen:
            raise ConfigError(
                f"environment {number} is an earlier one again: the same object was returned twice",
                "env",
                "Next: let each call of make_env, or of the function, build a new environment.",
            )
        seen.add(innermost)
