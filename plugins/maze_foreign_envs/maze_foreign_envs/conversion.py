"""Turns an object with another interface into an environment of gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium

from maze_core.plugins.other_interfaces import is_of_gym
from maze_foreign_envs.dm import DmApi
from maze_foreign_envs.old_api import OldApi, with_old_inside


def converted(env: Any, seeded: bool = False) -> gymnasium.Env[Any, Any]:
    """Return an environment of gymnasium for one of gym, of dm_env, or of gymnasium with a reset of before.

    Args:
        env: one of these.
        seeded: its randomness was fixed when it was built.
    """
    if isinstance(env, gymnasium.Env):
        return with_old_inside(env)
    return OldApi(env, seeded) if is_of_gym(env) else DmApi(env, seeded)
