"""The conformance kit's trial of TD3 and DDPG."""

from __future__ import annotations

from maze_devkit import Case, Trial


def small(case: Case) -> Trial:
    """Use small critics."""
    return Trial(parameters={"critic_hidden": [32, 32]})
