"""The conformance kit's trial of offline algorithms."""

from __future__ import annotations

from maze_devkit import Case, Trial


def small(case: Case) -> Trial:
    """Use a recording of the environment, and small critics."""
    return Trial(parameters={"dataset": str(case.demonstrations()), "critic_hidden": [32, 32]})
