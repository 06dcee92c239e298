"""Advantages and returns as pure functions of arrays; the first dimension is time."""

from __future__ import annotations

from typing import NamedTuple

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


class VTrace(NamedTuple):
    """The result of V-trace, both [T, N]."""

    targets: np.ndarray
    """v_s, the regression target of the critic."""
    advantages: np.ndarray
    """The weights of the policy gradient's log-probabilities: rho_s (r_s + discount_s v_{s+1} - V(x_s))."""


def vtrace(
    log_rhos: np.ndarray,
    rewards: np.ndarray,
    values: np.ndarray,
    next_values: np.ndarray,
    discounts: np.ndarray,
    continues: np.ndarray,
    clip_rho: float | None = 1.0,
    clip_pg_rho: float | None = 1.0,
) -> VTrace:
    """Return V-trace targets (Espeholt et al., arXiv 1802.01561, eq. 1 and section 4.2), cut at every episode's end.

    v_s = V(x_s) + sum over t >= s of (product of discount_i c_i, i = s .. t-1) rho_t delta_t with
    delta_t = r_t + discount_t V(x_{t+1}) - V(x_t), rho_t clipped at `clip_rho` and c_i at 1.

    Args:
        log_rhos: [T, N], log-probability of the action under the learning policy minus that under the acting one.
        rewards: [T, N]
        values: [T, N], V of the observation at each step.
        next_values: [T, N], V of the observation after each step: of the final one where an episode was truncated.
        discounts: [T, N], gamma, and 0 where an episode terminated.
        continues: [T, N], 1 where the next row belongs to the same episode, else 0; ignored in the last row.
        clip_rho: bound of the weights in the targets; None: no clipping.
        clip_pg_rho: bound of the weights in the advantages; None: no clipping.
    """
    ratios = np.exp(log_rhos)
    followed = continues.astype(bool)
    followed[-1] = False
    deltas = _clipped(ratios, clip_rho) * (rewards + discounts * next_values - values)
    decay = np.where(followed, discounts * np.minimum(ratios, 1), 0).astype(deltas.dtype)
    corrections: np.ndarray = np.empty_like(deltas)
    running = np.zeros_like(deltas[0])
    for t in range(len(deltas) - 1, -1, -1):
        running = deltas[t] + decay[t] * running
        corrections[t] = running
    targets = values + corrections
    next_targets = np.where(followed, np.roll(targets, -1, axis=0), next_values)
    advantages = _clipped(ratios, clip_pg_rho) * (rewards + discounts * next_targets - values)
    return VTrace(targets, advantages)


def _clipped(ratios: np.ndarray, bound: float | None) -> np.ndarray:
    return ratios if bound is None else np.minimum(ratios, bound)


def explained_variance(predictions: np.ndarray, targets: np.ndarray) -> float:
    """Return 1 - Var(targets - predictions) / Var(targets): 1: perfect; 0: like a constant; nan: undefined."""
    variance = _variance(targets) if targets.size else 0.0
    if variance == 0 or nearly_equal(float(targets.min()), float(targets.max())):
        return float("nan")
    return 1.0 - _variance(targets - predictions) / variance


def _variance(values: np.ndarray) -> float:
    centred = (values - values.mean()).ravel()
    return float(np.dot(centred, centred)) / len(centred)  # np.var takes longer for a rollout
