"""The conformance kit's trials of DQN, Ape-X and PQN."""

from __future__ import annotations

from maze_devkit import Case, Trial


def dqn(case: Case) -> Trial:
    """Explore and follow as fast as a short run needs."""
    return Trial(parameters={"epsilon": {"end": 1000}, "num_batches_per_iter": 4, "target_update_interval": 10})


def pqn(case: Case) -> Trial:
    """Use few environments."""
    return Trial(parameters={"epsilon": {"end": 1000}, "num_envs": 4})


def apex(case: Case) -> Trial:
    """Use two actors, and learn and follow as fast as a short run needs."""
    return Trial(parameters={"num_actors": 2, "epsilon": {"end": 1000}, "target_update_interval": 10})
