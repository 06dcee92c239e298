"""Sizes of off-policy algorithms: which contradict each other, and how many steps a collection has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_core import ConfigError
from maze_core.plugins.config.params import setting
from maze_offpolicy.collect.pairs import HINDSIGHT, N_STEP, PRIORITIES, refused

if TYPE_CHECKING:
    from maze_core import RunConfig
    from maze_offpolicy.collect.replay_memory import ReplayMemory


def steps_of_each(collect_steps: int, num_envs: int) -> int:
    """Return how many steps each of N environments takes so that all take at least `collect_steps` together."""
    return -(-collect_steps // num_envs)


def check_replay_sizes(config: RunConfig, capacity: int, num_envs: int, first_steps: int) -> None:
    """Raise ConfigError for sizes of an off-policy algorithm that contradict each other.

    Args:
        config: of the run; its algorithm may call the sizes otherwise than the bundled ones do.
        capacity: rows of the buffer.
        num_envs: number of environments.
        first_steps: steps before learning begins.
    """
    algorithm = config.algorithm
    size, first = (setting(algorithm, name) for name in ("replay_buffer_size", "initial_buffer_size"))
    if first_steps > capacity:
        raise ConfigError(
            f"the first {first_steps:,} steps do not fit into a buffer of {capacity:,}",
            first,
            "Take fewer of them, or a larger buffer.",
        )
    if config.steps is not None and config.steps <= first_steps:
        raise ConfigError(
            f"the first {first_steps:,} steps are taken before learning begins, but the run has only {config.steps:,}",
            first,
            "Lower it, or raise steps.",
        )
    if capacity < 8 * num_envs:
        raise ConfigError(f"the buffer must have at least {8 * num_envs} rows for {num_envs} environments", size)
    if getattr(algorithm, "her_goals", 0):
        _check_hindsight(algorithm)


def _check_hindsight(algorithm: Any) -> None:
    if getattr(algorithm, "n_step", 1) != 1:
        raise refused(N_STEP, HINDSIGHT)
    if getattr(algorithm, "prioritized", False):
        raise refused(PRIORITIES, HINDSIGHT)


def check_sequences(config: RunConfig, memory: ReplayMemory, capacity: int, num_envs: int, agent_rows: int) -> None:
    """Raise ConfigError for sizes of an off-policy algorithm with memory that contradict each other.

    Args:
        config: of the run.
        memory: the lengths of its sequences.
        capacity: rows of the buffer.
        num_envs: number of environments.
        agent_rows: the number of agents in all of them.
    """
    where, length = setting(config.algorithm, "sequence_length"), memory.length
    fewest = 2 * (length + memory.burn_in + 1) * agent_rows
    if capacity < fewest:
        whose = f"{num_envs} environments" if agent_rows == num_envs else f"{agent_rows} agents"
        read = f" and the {memory.burn_in:,} before them" if memory.burn_in else ""
        raise ConfigError(
            f"two sequences of {length:,} steps{read} for each of {whose} need {fewest:,} rows, "
            f"but the replay buffer has {capacity:,}",
            where,
            "Lower it, or take a larger buffer.",
        )
    # Steps of all environments until the first sequence is complete, if no episode ends before.
    first = length * num_envs
    if config.steps is not None and config.steps <= first:
        raise ConfigError(
            f"{num_envs} environments take {first:,} steps for their first sequences of {length:,}, but the "
            f"run has only {config.steps:,}",
            where,
            "Lower it, or raise steps.",
        )
