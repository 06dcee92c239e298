"""Clips the rewards for the learner."""

from __future__ import annotations

from typing import Literal

import numpy as np


def clipped_rewards(rewards: np.ndarray, clipping: Literal["none", "abs_one", "soft_asymmetric"]) -> np.ndarray:
    """Return rewards of any shape, clipped as in the paper (Espeholt et al., arXiv 1802.01561, table G.1).

    `abs_one`: cut at -1 and 1. `soft_asymmetric`: 5 tanh(r / 5), and 0.3 times that for negative rewards, so that
    failure weighs less than success.
    """
    clipped: np.ndarray = rewards
    if clipping == "abs_one":
        clipped = np.clip(rewards, -1, 1)
    elif clipping == "soft_asymmetric":
        squeezed = np.tanh(rewards / 5)
        clipped = np.where(rewards < 0, 0.3 * squeezed, squeezed) * 5
    return clipped
