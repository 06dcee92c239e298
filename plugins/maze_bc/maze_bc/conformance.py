"""What the conformance kit tries BC with."""

from __future__ import annotations

from maze_devkit import Case, Trial


def bc(case: Case) -> Trial:
    """Use a recording of the environment, and no critic: cloning leaves it as it is, for further training."""
    parameters = {"dataset": str(case.demonstrations()), "n_eval_episodes": 1, "eval_every_k_iterations": None}
    return Trial(parameters=parameters, run={"model.critic": "none"})
