"""V-trace: targets and advantages from steps of an older policy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


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
