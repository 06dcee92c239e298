"""What the conformance kit tries the hand-written policies with."""

from __future__ import annotations

import functools

import gymnasium
from maze_devkit import Case, Trial


def lunar_lander(case: Case) -> Trial:
    """Use the environment that it lands."""
    return Trial(env=functools.partial(gymnasium.make, "LunarLander-v3"))
