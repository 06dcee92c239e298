"""Fitness shaping: weights depend on the order of the returns, not on their differences."""

from __future__ import annotations

import numpy as np


def centred_ranks(returns: np.ndarray) -> np.ndarray:
    """Return the ranks of the returns, spread evenly over [-0.5, 0.5]; same shape, float32.

    Equal returns share the mean of their ranks, so ties favour no member and all weights of equal returns are 0.
    The ranks add up to 0 and do not change under increasing functions of the returns (arXiv 1703.03864, section 2).
    """
    if returns.size < 2:
        return np.zeros(returns.shape, np.float32)
    _, group, counts = np.unique(returns.reshape(-1), return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts + 1) / 2
    centred: np.ndarray = ranks[group] / (returns.size - 1) - 0.5
    return centred.reshape(returns.shape).astype(np.float32)
