"""A Gaussian process over settings whose worth changes with time, and its upper confidence bound.

Parker-Holder et al. 2020, "Provably Efficient Online Hyperparameter Optimization with Population-Based Bandits", arXiv
2002.02518, section 4, with the time-varying kernel of Bogunovic et al. 2016, arXiv 1601.06650. Values have mean 0 and
deviation 1, settings lie in the unit cube.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

_LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)
_FORGETTING = (0.0, 0.05, 0.1, 0.2, 0.4)
_NOISES = (0.01, 0.1, 0.5, 1.0)
_JITTER = 1e-8


@dataclass(frozen=True, slots=True)
class Kernel:
    """A squared exponential in the settings times a power in the time between two observations."""

    length: float
    """Distance in the unit cube over which values differ."""
    forgetting: float
    """From 0, where an old observation tells as much as a new one, to below 1."""
    noise: float
    """Variance of an observation's noise, in units of `scale`."""
    scale: float = 1.0
    """Variance of the values."""


def covariance(kernel: Kernel, x: np.ndarray, t: np.ndarray, other_x: np.ndarray, other_t: np.ndarray) -> np.ndarray:
    """Return `scale * exp(-|x - x'|² / 2 length²) * (1 - forgetting) ** (|t - t'| / 2)`, `[N, M]`, without noise.

    Args:
        kernel: its parameters.
        x: settings, `[N, D]`.
        t: times, `[N]`.
        other_x: `[M, D]`.
        other_t: `[M]`.
    """
    squared = ((x[:, None, :] - other_x[None, :, :]) ** 2).sum(-1)
    apart = np.abs(t[:, None] - other_t[None, :]) / 2
    found: np.ndarray = kernel.scale * np.exp(-squared / (2 * kernel.length**2)) * (1 - kernel.forgetting) ** apart
    return found


def _factor(kernel: Kernel, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor of the covariance of observations, `[N, N]`."""
    noise = kernel.scale * (kernel.noise + _JITTER)
    return np.linalg.cholesky(covariance(kernel, x, t, x, t) + noise * np.eye(len(x)))


def log_likelihood(kernel: Kernel, x: np.ndarray, t: np.ndarray, y: np.ndarray) -> float:
    """Return the log density of values `y`, `[N]`, observed at settings `x`, `[N, D]`, and times `t`, `[N]`."""
    factor = _factor(kernel, x, t)
    white = np.linalg.solve(factor, y)
    return float(-0.5 * white @ white - np.log(np.diag(factor)).sum() - 0.5 * len(y) * math.log(2 * math.pi))


def fitted(x: np.ndarray, t: np.ndarray, y: np.ndarray) -> Kernel:
    """Return the most likely kernel of a grid; the scale of each is the most likely one. Shapes: `log_likelihood`."""
    best, most = Kernel(0.4, 0.1, 0.1), -math.inf
    if not len(y):
        return best
    for length, forgetting, noise in product(_LENGTHS, _FORGETTING, _NOISES):
        kernel = Kernel(length, forgetting, noise)
        white = np.linalg.solve(_factor(kernel, x, t), y)
        scaled = Kernel(length, forgetting, noise, max(1e-6, float(white @ white) / len(y)))
        if (likelihood := log_likelihood(scaled, x, t, y)) > most:
            best, most = scaled, likelihood
    return best


def posterior(
    kernel: Kernel, x: np.ndarray, t: np.ndarray, y: np.ndarray, new_x: np.ndarray, new_t: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance, `[M]` each, of the values at new settings, `[M, D]`, and times, `[M]`.

    Given values `y`, `[N]`, observed at settings `x`, `[N, D]`, and times `t`, `[N]`; N may be 0.
    """
    prior = np.full(len(new_x), kernel.scale)
    if not len(x):
        return np.zeros(len(new_x)), prior
    factor = _factor(kernel, x, t)
    across = np.linalg.solve(factor, covariance(kernel, x, t, new_x, new_t))
    mean: np.ndarray = across.T @ np.linalg.solve(factor, y)
    return mean, np.maximum(prior - (across**2).sum(0), 0.0)


def upper_bound(
    kernel: Kernel,
    seen: tuple[np.ndarray, np.ndarray, np.ndarray],
    pending: np.ndarray,
    new_x: np.ndarray,
    now: float,
) -> np.ndarray:
    """Return the upper confidence bound at new settings, `[M, D]`, at a time: `mean + sqrt(beta) * deviation`, `[M]`.

    The mean is that of what was seen: settings `[N, D]`, times `[N]`, values `[N]`. The deviation also counts the
    settings `pending`, `[P, D]`, that train now, whose values do not matter for it: so a batch is spread (equation 5 of
    the paper, after Desautels et al. 2014). `beta` grows with the observations: `0.2 + log(0.4 N)`, at least 0.2.
    """
    x, t, y = seen
    times = np.full(len(new_x), now)
    mean, _ = posterior(kernel, x, t, y, new_x, times)
    all_x, all_t = np.concatenate([x, pending]), np.concatenate([t, np.full(len(pending), now)])
    _, variance = posterior(kernel, all_x, all_t, np.zeros(len(all_x)), new_x, times)
    beta = 0.2 + max(0.0, math.log(0.4 * max(1, len(y))))
    bound: np.ndarray = mean + np.sqrt(beta * variance)
    return bound
