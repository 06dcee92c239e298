"""Mixtures of Gaussians, fitted by expectation and maximisation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

_FLOOR = 1e-6
"""Added to the variances, so that no component collapses onto a point."""
_TOLERANCE, _ROUNDS = 1e-3, 100


@dataclass(frozen=True)
class Mixture:
    """K Gaussians in D dimensions."""

    weights: np.ndarray
    """[K]"""
    means: np.ndarray
    """[K, D]"""
    covariances: np.ndarray
    """[K, D, D]"""


def best_mixture(rows: np.ndarray, counts: Iterable[int], rng: np.random.Generator) -> Mixture:
    """Return the mixture with the least Akaike information criterion.

    Args:
        rows: [E, D]
        counts: the numbers of components to try; those above E are left out.
        rng: draws where each fit begins.
    """
    fits = [fit(rows, count, rng) for count in counts if count <= len(rows)]
    return min(fits, key=lambda each: akaike(rows, each))


def akaike(rows: np.ndarray, mixture: Mixture) -> float:
    """Return Akaike's information criterion, twice the number of parameters minus twice the log-likelihood."""
    count, size = mixture.means.shape
    parameters = count * (size + size * (size + 1) / 2) + count - 1
    return float(2 * parameters - 2 * _log_sum(log_densities(rows, mixture)).sum())


def fit(rows: np.ndarray, count: int, rng: np.random.Generator) -> Mixture:
    """Return a mixture of `count` components for rows [E, D], fitted by expectation and maximisation.

    It begins with means far apart (k-means++), and ends where the mean log-likelihood changes by less than 0.001.
    """
    size = rows.shape[1]
    spread = np.cov(rows, rowvar=False).reshape(size, size) + _FLOOR * np.eye(size)
    mixture = Mixture(np.full(count, 1 / count), _far_apart(rows, count, rng), np.repeat(spread[None], count, 0))
    before = -np.inf
    for _ in range(_ROUNDS):
        logs = log_densities(rows, mixture)
        total = _log_sum(logs)
        mixture = _maximised(rows, np.exp(logs - total[:, None]))
        now = float(total.mean())
        if abs(now - before) < _TOLERANCE:
            break
        before = now
    return mixture


def log_densities(rows: np.ndarray, mixture: Mixture) -> np.ndarray:
    """Return the logarithms of weight times density of each component at each row, [E, K]."""
    size, lower = rows.shape[1], np.linalg.cholesky(mixture.covariances)
    apart = rows[None] - mixture.means[:, None]
    distances = (np.linalg.solve(lower, apart.transpose(0, 2, 1)) ** 2).sum(1)
    spreads = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)
    logs: np.ndarray = (np.log(mixture.weights) - spreads)[None] - (distances.T + size * np.log(2 * np.pi)) / 2
    return logs


def _maximised(rows: np.ndarray, shares: np.ndarray) -> Mixture:
    """Return the most likely mixture for rows [E, D] that belong to the components by these shares, [E, K]."""
    sums = shares.sum(0) + 10 * np.finfo(float).eps
    means = shares.T @ rows / sums[:, None]
    apart = rows[None] - means[:, None]
    covariances = (shares.T[:, :, None] * apart).transpose(0, 2, 1) @ apart / sums[:, None, None]
    return Mixture(sums / sums.sum(), means, covariances + _FLOOR * np.eye(rows.shape[1]))


def _far_apart(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows to begin with, each drawn in proportion to its squared distance to those before, [K, D]."""
    chosen = [rows[int(rng.integers(len(rows)))]]
    while len(chosen) < count:
        distances = np.min([((rows - each) ** 2).sum(1) for each in chosen], 0)
        total = distances.sum()
        p = distances / total if total > 0 else None
        chosen.append(rows[int(rng.choice(len(rows), p=p))])
    return np.stack(chosen)


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """Return the logarithms of sums of exponentials over the components, [E]."""
    highest = logs.max(1)
    summed: np.ndarray = highest + np.log(np.exp(logs - highest[:, None]).sum(1))
    return summed
