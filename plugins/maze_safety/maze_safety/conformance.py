"""The conformance kit's trial of constraints."""

from __future__ import annotations

from maze_devkit import Case, Trial


def constraints(case: Case) -> Trial:
    """Limit what every environment has, and weigh it from the first update on."""
    return Trial(parameters={"limits": {"length": {"at_most": 5.0}}, "initial": 1.0})
