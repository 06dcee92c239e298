"""Advantages and returns as pure functions of arrays; the first dimension is time."""

from __future__ import annotations

import numpy as np

from maze_onpolicy.data.rounding import nearly_equal


def generalized_advantages(
    rewards: np.ndarray,
    values: np.ndarray,
    next_values: np.ndarray,
    discounts: np.ndarray,
    continues: np.ndarray,
    gae_lambda: float,
) -> np.ndarray:
    """Return generalised advantage estimates (Schulman et al., arXiv 1506.02438, eq. 16), cut at every episode's end.

    delta_t = r_t + discount_t * V(x_{t+1}) - V(x_t);  A_t = delta_t + discount_t * lambda * continues_t * A_{t+1}

    Args:
        rewards: [T, N]
        values: [T, N], V of the observation at each step.
        next_values: [T, N], V of the observation after each step: of the final one where an episode was truncated.
        discounts: [T, N], gamma, and 0 where an episode terminated.
        continues: [T, N], 1 where the next row belongs to the same episode, else 0.
        gae_lambda: 0: one-step advantages; 1: discounted returns minus the value.

    Returns:
        [T, N] advantages; the regression target of the critic is `advantages + values`.
    """
    deltas = rewards + discounts * next_values - values
    decay = discounts * (continues * gae_lambda)
    advantages: np.ndarray = np.empty_like(deltas)
    running, carried = np.zeros_like(deltas[0]), np.empty_like(deltas[0])
    for delta, factor, row in zip(deltas[::-1], decay[::-1], advantages[::-1], strict=True):
        running = np.add(delta, np.multiply(factor, running, carried), row)
    return advantages


def explained_variance(predictions: np.ndarray, targets: np.ndarray) -> float:
    """Return 1 - Var(targets - predictions) / Var(targets): 1: perfect; 0: like a constant; nan: undefined."""
    variance = _variance(targets) if targets.size else 0.0
    if variance == 0 or nearly_equal(float(targets.min()), float(targets.max())):
        return float("nan")
    return 1.0 - _variance(targets - predictions) / variance


def _variance(values: np.ndarray) -> float:
    centred = (values - values.mean()).ravel()
    return float(np.dot(centred, centred)) / len(centred)  # np.var takes longer for a rollout
