"""The conformance kit's trials of the hand-written policies."""

from __future__ import annotations

import functools

import gymnasium
from maze_devkit import Case, Trial


def lunar_lander(case: Case) -> Trial:
    """Use LunarLander."""
    return Trial(env=functools.partial(gymnasium.make, "LunarLander-v3"))
