"""The conformance kit's trial of BC."""

from __future__ import annotations

from maze_devkit import Case, Trial


def bc(case: Case) -> Trial:
    """Use a recording of the environment, and no critic: BC does not train one."""
    parameters = {"dataset": str(case.demonstrations()), "n_eval_episodes": 1, "eval_every_k_iterations": None}
    return Trial(parameters=parameters, run={"model.critic": "none"})
