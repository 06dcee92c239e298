"""The conformance kit's trial of the Decision Transformer."""

from __future__ import annotations

from maze_devkit import Case, Trial


def small(case: Case) -> Trial:
    """Use a recording of the environment, and a small transformer."""
    values = {"size": 16, "layers": 1, "context": 4, "batch_size": 64, "lr": 3e-3}
    return Trial(parameters={"dataset": str(case.demonstrations()), **values})
