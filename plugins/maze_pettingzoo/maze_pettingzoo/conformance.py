"""The conformance kit's trial of the env source."""

from __future__ import annotations

from maze_devkit import Case, Trial


def trial(case: Case) -> Trial:
    """Play rock, paper, scissors, which needs no further package."""
    return Trial(
        parameters={"id": "pettingzoo.classic:rps_v2"},
        waived={
            "chance": "the game has no chance",
            "time_limit": "the game has a fixed number of rounds, which it reports as a truncation",
        },
    )


def self_play(case: Case) -> Trial:
    """Let the second player be the opponent, in the same game."""
    return Trial(
        parameters={"opponents": ["player_1"]},
        run={"env.name": "pettingzoo", "env.id": "pettingzoo.classic:rps_v2"},
    )
