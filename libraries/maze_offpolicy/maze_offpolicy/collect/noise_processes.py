"""Random numbers of which those that follow each other are alike: exploration that goes somewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from maze_core import Count, varies
from maze_core.base.saved_state import Anything
from maze_core.base.seeding import load_random_state, random_state


class NoiseProcess(ABC):
    """Standard normal numbers for each of N rows, step by step.

    They go on over the ends of episodes. Each number has variance 1.

    Args:
        rng: what they are drawn with.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    @abstractmethod
    def next(self, rows: int, size: int) -> np.ndarray:
        """Return the numbers of the next step, [rows, size]."""

    def state(self) -> dict[str, Any]:
        """Return what decides the next numbers."""
        return {"rng": random_state(self._rng)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        load_random_state(self._rng, state["rng"])


class White(NoiseProcess):
    """Numbers that depend on no others."""

    def next(self, rows: int, size: int) -> np.ndarray:
        """Return the numbers of the next step, [rows, size]."""
        return self._rng.standard_normal((rows, size))


class OrnsteinUhlenbeck(NoiseProcess):
    """A walk that is drawn back to 0 (Uhlenbeck and Ornstein 1930; Lillicrap et al., arXiv 1509.02971, section 7).

    x' = (1 - theta) x + sqrt(2 theta - theta²) e with normal e: where x has variance 1, so has x', and it begins so.
    The paper's theta of 0.15 and sigma of 0.2 are a standard deviation of 0.38.

    Args:
        rng: what the numbers are drawn with.
        theta: how fast it is drawn back, 0 to 1; 1 is white noise.
    """

    def __init__(self, rng: np.random.Generator, theta: float) -> None:
        super().__init__(rng)
        self._theta, self._value = theta, np.zeros((0, 0))

    def next(self, rows: int, size: int) -> np.ndarray:
        """Return the numbers of the next step, [rows, size]."""
        drawn = self._rng.standard_normal((rows, size))
        theta, before = self._theta, self._value
        first = before.shape != drawn.shape
        self._value = drawn if first else (1 - theta) * before + np.sqrt(theta * (2 - theta)) * drawn
        return self._value

    def state(self) -> dict[str, Any]:
        """Return what decides the next numbers."""
        return {**super().state(), "value": varies(self._value, Anything())}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        super().load_state(state)
        self._value = np.asarray(state["value"])


class Repeated(NoiseProcess):
    """Numbers that stay as they are for a random number of steps, each row's by itself (Kim et al., arXiv 2604.04539).

    They stay for n steps with a probability in proportion to n^-2, as in εz-greedy (Dabney et al., arXiv 2006.01782).

    Args:
        rng: what they are drawn with.
        longest: the largest n.
    """

    def __init__(self, rng: np.random.Generator, longest: int) -> None:
        super().__init__(rng)
        self._until = np.cumsum(stay_probabilities(longest))
        self._value, self._left = np.zeros((0, 0)), np.zeros(0, np.int64)

    def next(self, rows: int, size: int) -> np.ndarray:
        """Return the numbers of the next step, [rows, size]."""
        if self._value.shape != (rows, size):
            self._value, self._left = np.zeros((rows, size)), np.zeros(rows, np.int64)
        due = np.flatnonzero(self._left == 0)
        self._value[due] = self._rng.standard_normal((len(due), size))
        self._left[due] = 1 + np.searchsorted(self._until[:-1], self._rng.random(len(due)), side="right")
        self._left -= 1
        return self._value.copy()

    def state(self) -> dict[str, Any]:
        """Return what decides the next numbers."""
        return {
            **super().state(),
            "value": varies(self._value.copy(), Anything()),
            "left": varies(self._left.copy(), Anything()),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        super().load_state(state)
        self._value, self._left = np.array(state["value"]), np.array(state["left"])


def stay_probabilities(longest: int) -> np.ndarray:
    """Return the probabilities of staying for 1 to `longest` steps, [longest], in proportion to n^-2."""
    weights = np.arange(1, longest + 1, dtype=np.float64) ** -2
    probabilities: np.ndarray = weights / weights.sum()
    return probabilities


class Coloured(NoiseProcess):
    """Numbers whose power falls with the frequency f as f^-beta (Eberhard et al., ICLR 2023, section 3).

    They come in blocks of `steps` steps, each drawn at once, as Timmer and König (1995) do it, and independent of the
    one before.

    Args:
        rng: what the numbers are drawn with.
        beta: 0 is white noise, 1 pink, 2 red.
        steps: of a block: as many as an episode has, if that is known.
    """

    def __init__(self, rng: np.random.Generator, beta: float, steps: int) -> None:
        super().__init__(rng)
        self._beta, self._steps = beta, steps
        self._before = random_state(rng)
        self._place = steps
        self._block = np.zeros((0, 0, 0))

    def next(self, rows: int, size: int) -> np.ndarray:
        """Return the numbers of the next step, [rows, size]."""
        if self._place >= self._steps:
            self._before, self._place = random_state(self._rng), 0
            self._block = np.zeros((0, 0, 0))
        if self._block.shape != (self._steps, rows, size):
            load_random_state(self._rng, self._before)  # a restored state holds where the block began, not the block
            self._block = coloured(self._rng, self._beta, self._steps, (rows, size))
        self._place += 1
        found: np.ndarray = self._block[self._place - 1]
        return found

    def state(self) -> dict[str, Any]:
        """Return the random state before the block, and the place in it."""
        before = self._before if self._place < self._steps else random_state(self._rng)
        return {"rng": before, "place": varies(self._place, Count(below=self._steps + 1))}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        super().load_state(state)
        self._before, self._place, self._block = state["rng"], state["place"], np.zeros((0, 0, 0))


def coloured(rng: np.random.Generator, beta: float, steps: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return noise with the spectrum f^-beta and variance 1, [steps, *shape], drawn in the domain of frequencies.

    The frequency 0 has the power of the lowest one above it: the mean of a block varies.
    """
    frequencies = np.fft.rfftfreq(steps)
    frequencies[0] = 1 / steps
    scale, waves = frequencies ** (-beta / 2), rng.standard_normal((2, len(frequencies), *shape))
    parts, real = np.full(len(scale), 4.0), [0, -1] if steps % 2 == 0 else [0]
    # A wave's cosine and sine both count twice in the real signal; the first and, of an even number, the last are real.
    parts[real], waves[0, real], waves[1, real] = 2.0, waves[0, real] * np.sqrt(2), 0.0
    factors = steps * scale / np.sqrt(parts @ scale**2)
    spectrum = (waves[0] + 1j * waves[1]) * factors.reshape(-1, *[1] * len(shape))
    noise: np.ndarray = np.fft.irfft(spectrum, n=steps, axis=0)
    return noise
