"""The conformance kit's trial of MAML."""

from __future__ import annotations

from maze_devkit import Case, Trial


def maml(case: Case) -> Trial:
    """Use few rollouts. The kit's environments are a single task each."""
    return Trial(parameters={"tasks": {}, "tasks_per_update": 2, "rollouts_per_task": 8})
