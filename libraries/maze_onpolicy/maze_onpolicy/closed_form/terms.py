"""Parts of an actor-critic's loss, row by row, with their derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Term:
    """One part of the loss."""

    value: np.ndarray
    """[B]"""
    slope: np.ndarray
    """[B], derivative of each row's value with respect to its log-probability, or to the critic's estimate."""


def surrogate_term(log_ratio: np.ndarray, advantage: np.ndarray, clip_range: float) -> Term:
    """Return the rows of `clipped_surrogate` for log-ratios [B] and advantages [B].

    The loss is max(-A r, -A - eps |A|); d(-A r) / d log r = -A r, and the second is constant.
    """
    negative = -advantage
    scaled = np.exp(log_ratio)
    scaled *= negative
    least = np.abs(advantage)
    least *= -clip_range
    least += negative
    return Term(np.maximum(scaled, least), scaled * (scaled >= least))


def policy_gradient_term(log_prob: np.ndarray, weight: np.ndarray) -> Term:
    """Return -log p times constant weights, [B]."""
    negative = -weight
    return Term(log_prob * negative, negative)


def squared_error_term(
    value: np.ndarray, target: np.ndarray, old_value: np.ndarray | None = None, clip_range: float | None = None
) -> Term:
    """Return the critic's squared errors; with `clip_range` the larger of the plain and the clipped one.

    Args:
        value: [B], the critic's estimate.
        target: [B]
        old_value: [B], the estimate when the rollout was collected.
        clip_range: how far `value` may move from `old_value`; None: no clipping.
    """
    error = value - target
    square = error * error
    if clip_range is None or old_value is None:
        return Term(square, error + error)
    moved = value - old_value
    clipped = old_value + np.clip(moved, -clip_range, clip_range) - target
    clipped_square = clipped * clipped
    inside = np.abs(moved) <= clip_range
    slope = np.where(square >= clipped_square, error + error, (clipped + clipped) * inside)
    return Term(np.maximum(square, clipped_square), slope)
