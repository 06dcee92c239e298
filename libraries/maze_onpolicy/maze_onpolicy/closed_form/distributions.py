"""Log-probability and entropy of actions with their gradients written out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from maze_core.models.distributions.continuous import HALF_LOG_2PI

if TYPE_CHECKING:
    from maze_core.models.families import CategoricalHead, GaussianHead


class Density(Protocol):
    """The distribution of B actions."""

    log_prob: np.ndarray
    """Log-probabilities of the actions, [B]."""
    entropy: np.ndarray
    """Entropies, [B]."""

    def slope(self, of_log_prob: np.ndarray, of_entropy: float) -> np.ndarray:
        """Return the gradient of the layer's outputs, [B, n].

        Args:
            of_log_prob: gradient of each row's log-probability, [B].
            of_entropy: gradient of each row's entropy.
        """

    def own_gradients(self, of_log_prob: np.ndarray, of_entropy: float) -> list[np.ndarray]:
        """Return the gradients of the head's parameters beside its layer."""


class CategoricalDensity:
    """`Categorical` for logits [B, n] and choices [B]."""

    def __init__(self, head: CategoricalHead, outputs: np.ndarray, actions: np.ndarray) -> None:
        self._factor = head.inverse_temperature
        logits = outputs if self._factor == 1 else outputs * self._factor
        shifted = logits - np.maximum.reduce(logits, 1, keepdims=True)
        self._probs = np.exp(shifted)
        total = np.add.reduce(self._probs, 1, keepdims=True)
        self._probs /= total
        self._log_probs = np.subtract(shifted, np.log(total, total), shifted)
        self._chosen = (_rows(len(logits)), actions)
        self.log_prob: np.ndarray = self._log_probs[self._chosen]
        self.entropy: np.ndarray = -np.einsum("bn,bn->b", self._probs, self._log_probs)

    def slope(self, of_log_prob: np.ndarray, of_entropy: float) -> np.ndarray:
        """Return the gradient of the layer's outputs, [B, n].

        d log p(a) / d z_j = [j = a] - p_j, and d H / d z_j = -p_j (log p_j + H).
        """
        weight = self.entropy * -of_entropy
        weight -= of_log_prob
        slope = self._log_probs * -of_entropy
        slope += weight[:, None]
        slope *= self._probs
        slope[self._chosen] += of_log_prob
        if self._factor != 1:
            slope *= self._factor
        return slope

    def own_gradients(self, of_log_prob: np.ndarray, of_entropy: float) -> list[np.ndarray]:
        """Return nothing: the layer has all parameters."""
        return []


class GaussianDensity:
    """`DiagonalGaussian` with one standard deviation per dimension, for means [B, d] and actions [B, d]."""

    def __init__(self, head: GaussianHead, outputs: np.ndarray, actions: np.ndarray) -> None:
        log_std = head.log_std.detach().numpy()
        self._inverse = np.exp(-log_std)
        self._standard = (actions - outputs) * self._inverse
        size, total = len(log_std), float(log_std.sum())
        volume = head.scale.log_volume
        self.log_prob: np.ndarray = np.einsum("bd,bd->b", self._standard, self._standard)
        self.log_prob *= -0.5
        self.log_prob -= total + HALF_LOG_2PI * size + volume
        self.entropy = np.full(len(outputs), total + (0.5 + HALF_LOG_2PI) * size + volume, np.float32)

    def slope(self, of_log_prob: np.ndarray, of_entropy: float) -> np.ndarray:
        """Return the gradient of the means, [B, d]; the entropy has none."""
        slope: np.ndarray = self._standard * self._inverse
        slope *= of_log_prob[:, None]
        return slope

    def own_gradients(self, of_log_prob: np.ndarray, of_entropy: float) -> list[np.ndarray]:
        """Return the gradient of the log standard deviations."""
        squares = self._standard * self._standard
        squares -= 1.0
        gradient = of_log_prob @ squares
        gradient += of_entropy * len(of_log_prob)
        return [gradient]


def _rows(count: int) -> np.ndarray:
    return np.arange(count)
