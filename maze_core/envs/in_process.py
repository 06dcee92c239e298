"""Environments stepped in the calling process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_core.envs.interfaces import agents, native
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.vector import begins_episodes
from maze_core.plugins.closing import release

if TYPE_CHECKING:
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.vector import VectorEnv


def vector_env(builder: EnvBuilder, num_envs: int, first_index: int = 0) -> VectorEnv:
    """Build environments from `first_index` on: natively vectorised where the source can, else stepped in turn.

    Raises:
        ConfigError: the environment cannot be built, or its spaces are not supported.
    """
    env = native_env(builder, num_envs)
    if env is not None and builder.parameters:
        release(env)
        raise begins_episodes()
    return in_turn(builder, num_envs, first_index) if env is None else env


def native_env(builder: EnvBuilder, num_envs: int) -> VectorEnv | None:
    """Build natively vectorised environments, which stay in this process; None where the source has none."""
    env = builder.vector_env(num_envs)
    return None if env is None else native(env, builder.info_columns)


def in_turn(make: Any, num_envs: int, first_index: int = 0) -> Any:
    """Build environments stepped in turn in this process: single ones, or copies of one with several agents.

    `make` is an `EnvBuilder`, or a function from an environment's number to a single environment.
    """
    if getattr(make, "several_agents", False):
        ids, columns = make.agent_ids, make.info_columns
        return agents(make.agents_env, num_envs, first_index, agent_ids=ids, info_columns=columns)
    return SerialVectorEnv(make, num_envs, first_index)
