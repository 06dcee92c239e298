"""The conformance kit's trial of the callback `budget`."""

from __future__ import annotations

from maze_devkit import Case, Trial


def budget(case: Case) -> Trial:
    """A budget that no run of the kit spends."""
    return Trial(parameters={"steps": 1_000_000})
