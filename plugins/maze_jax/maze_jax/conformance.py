"""The conformance kit's trials of the env sources."""

from __future__ import annotations

from maze_devkit import Case, Trial


def source(case: Case) -> Trial:
    """Play short episodes of gymnax's CartPole."""
    return Trial(parameters={"id": "gymnax:CartPole-v1", "max_episode_steps": 30})


def games(case: Case) -> Trial:
    """Play noughts and crosses."""
    return Trial(
        parameters={"id": "pgx:tic_tac_toe"},
        waived={"chance": "chance decides nothing but who begins", "time_limit": "the board is full after nine moves"},
    )
