"""The conformance kit's trials of offline algorithms."""

from __future__ import annotations

from maze_devkit import Case, Trial


def small(case: Case) -> Trial:
    """Use a recording of the environment, and small critics."""
    return Trial(parameters={"dataset": str(case.demonstrations()), "critic_hidden": [32, 32]})


def conservative(case: Case) -> Trial:
    """Learn as fast as a short run needs, from few sampled actions."""
    rates = {"lr": 3e-3, "critic_lr": 3e-3, "entropy_coef": 0.1, "alpha": 1.0, "sampled_actions": 4}
    return Trial(parameters={"dataset": str(case.demonstrations()), "critic_hidden": [32, 32], **rates})
