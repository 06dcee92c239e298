"""Advantages and returns as pure functions of arrays; time runs along the first dimension."""

from __future__ import annotations

import numpy as np


def generalized_advantages(
    rewards: np.ndarray,
    values: np.ndarray,
    next_values: np.ndarray,
    discounts: np.ndarray,
    continues: np.ndarray,
    gae_lambda: float,
) -> np.ndarray:
    """Generalised advantage estimation (Schulman et al., arXiv 1506.02438, eq. 16), cut at every episode's end.

    delta_t = r_t + discount_t * V(x_{t+1}) - V(x_t);  A_t = delta_t + discount_t * lambda * continues_t * A_{t+1}

    Args:
        rewards: [T, N]
        values: [T, N], V of the observation acted on.
        next_values: [T, N], V of the observation reached: of the final observation where an episode was truncated.
        discounts: [T, N], gamma, and 0 where an episode terminated.
        continues: [T, N], 1 where the next row belongs to the same episode, else 0.
        gae_lambda: 0: one-step advantages; 1: discounted returns minus the value.

    Returns:
        [T, N] advantages; the regression target of the critic is `advantages + values`.
    """
    deltas = rewards + discounts * next_values - values
    decay = discounts * (continues * gae_lambda)
    advantages: np.ndarray = np.empty_like(deltas)
    running = np.zeros_like(deltas[0])
    for t in range(len(deltas) - 1, -1, -1):
        running = deltas[t] + decay[t] * running
        advantages[t] = running
    return advantages


def explained_variance(predictions: np.ndarray, targets: np.ndarray) -> float:
    """1 - Var(targets - predictions) / Var(targets): 1 is perfect, 0 no better than a constant, nan if undefined."""
    variance = float(np.var(targets)) if targets.size else 0.0
    return float("nan") if variance == 0 else 1.0 - float(np.var(targets - predictions)) / variance
