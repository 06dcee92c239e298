"""The conformance kit's trials of SAC and SACfD."""

from __future__ import annotations

from maze_devkit import Case, Trial

_CRITIC = {"critic_hidden": [32, 32]}


def sac(case: Case) -> Trial:
    """Use small critics."""
    return Trial(parameters=_CRITIC)


def sacfd(case: Case) -> Trial:
    """Use small critics and a recording of the environment."""
    return Trial(parameters={**_CRITIC, "initial_demonstrations": str(case.demonstrations())})
