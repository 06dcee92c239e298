"""The conformance kit's trials of the callback and of teachers that need parameters."""

from __future__ import annotations

from maze_devkit import Case, Trial


def trial(case: Case) -> Trial:
    """Choose the seeds of the episodes, which every environment has."""
    waived = {"never_stops_a_run": "without its teacher the next episodes have no parameters"}
    return Trial(parameters={"parameters": {"seed": [0, 9]}}, waived=waived)


def lessons(case: Case) -> Trial:
    """Go through two lessons, whichever the parameters are."""
    first = {"parameters": {}, "at_least": 0.0, "episodes": 60}
    return Trial(parameters={"lessons": [first, {"parameters": {}}]})


def alp_gmm(case: Case) -> Trial:
    """Fit small mixtures, often."""
    return Trial(parameters={"every": 60, "components": 3})
