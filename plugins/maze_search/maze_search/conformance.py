"""The conformance kit's trial of AlphaZero."""

from __future__ import annotations

from maze_devkit import Case, Trial


def small(case: Case) -> Trial:
    """Look ahead as little as a short run needs."""
    few = {"n_simulations": 4, "eval_simulations": 1, "num_envs": 4, "num_batches_per_iter": 4}
    return Trial(parameters=few)
