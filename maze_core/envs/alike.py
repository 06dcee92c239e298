"""Environments that are built together and must have the same spaces."""

from __future__ import annotations

from collections.abc import Callable
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
        ConfigError: they have different spaces.
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
    except BaseException:
        release(*envs)
        raise
    return envs
