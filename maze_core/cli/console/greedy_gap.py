"""Detects a policy whose return is far higher with sampled actions than with the most likely ones."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

_EPOCHS = 5
"""Number of newest epochs to compare."""
_FEWEST = 3
"""Fewest epochs for a result."""
_ERRORS = 3.0
"""Standard errors that the difference must exceed."""
_SPREADS = 0.5
"""Standard deviations of training returns that make a difference large."""
_SHARE = 0.1
"""Share of the returns' magnitude that makes a difference large when returns hardly vary."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Mean returns of the newest epochs."""

    training: float
    evaluation: float


@dataclass(frozen=True, slots=True)
class _Epoch:
    training: float
    evaluation: float
    spread: float
    """Standard deviation of training returns."""
    variance: float
    """Squared standard error of the difference of the means."""


class GreedyGap:
    """Compares the returns of training and evaluation over the newest epochs."""

    def __init__(self) -> None:
        self._epochs: deque[_Epoch] = deque(maxlen=_EPOCHS)

    def add(self, metrics: dict[str, float]) -> None:
        """Add an epoch's metrics; an epoch without both kinds of episodes is ignored."""
        means, spreads, counts = (
            [metrics.get(f"{kind}/{name}", math.nan) for kind in ("train", "eval")]
            for name in ("return_mean", "return_std", "episodes")
        )
        if all(map(math.isfinite, [*means, *spreads, *counts])) and min(counts) >= 1:
            variance = sum(spread**2 / count for spread, count in zip(spreads, counts, strict=True))
            self._epochs.append(_Epoch(means[0], means[1], spreads[0], variance))

    def find(self) -> Gap | None:
        """Return the mean returns if training's are higher in every epoch, significantly and by much; else None."""
        count = len(self._epochs)
        if count < _FEWEST or any(each.training <= each.evaluation for each in self._epochs):
            return None
        training = sum(each.training for each in self._epochs) / count
        evaluation = sum(each.evaluation for each in self._epochs) / count
        chance = math.sqrt(sum(each.variance for each in self._epochs)) / count
        spread = math.sqrt(sum(each.spread**2 for each in self._epochs) / count)
        size = max(abs(training), abs(evaluation))
        large = max(_ERRORS * chance, _SPREADS * spread, _SHARE * size)
        return Gap(training, evaluation) if training - evaluation > large else None
