"""The conformance kit's trial of AlphaZero."""

from __future__ import annotations

from maze_devkit import Case, Trial


def small(case: Case) -> Trial:
    """Look ahead as little as a short run needs."""
    return Trial(parameters={"n_simulations": 4, "num_envs": 4, "num_batches_per_iter": 4})
