"""The conformance kit's trial of TD3 and DDPG."""

from __future__ import annotations

from maze_devkit import Case, Trial


def small(case: Case) -> Trial:
    """Use small critics."""
    return Trial(parameters={"critic_hidden": [32, 32]})


def fast(case: Case) -> Trial:
    """Use small critics, few environments and small batches."""
    few = {
        "critic_hidden": [32, 32],
        "num_envs": 2,
        "utd": 1,
        "batch_size": 32,
        "atoms": 51,
        "v_min": -20,
        "v_max": 20,
        "lr": 0.003,
    }
    # The kit tells by the scale of a leaf whether critics see it, and the normaliser takes scales away.
    return Trial(parameters=few, run={"model.normalize_observations": False})
