"""The conformance kit's trial of the env source."""

from __future__ import annotations

from maze_devkit import Case, Trial


def source(case: Case) -> Trial:
    """Play short episodes of CartPole."""
    return Trial(parameters={"id": "CartPole-v1", "max_episode_steps": 30})
