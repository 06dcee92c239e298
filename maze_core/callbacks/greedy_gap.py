"""Whether the policy earns far more in training, where it samples, than where it takes its likeliest actions."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

_EPOCHS = 5
"""The newest epochs that are compared."""
_FEWEST = 3
"""Epochs before anything is said."""
_ERRORS = 3.0
"""Standard errors of the difference that chance may make."""
_SPREADS = 0.5
"""Standard deviations of training's returns that make a difference large."""
_SHARE = 0.1
"""Share of the returns' size that makes a difference large, where returns hardly differ from each other."""


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
    """Standard deviation of training's returns."""
    variance: float
    """Squared standard error of the difference of the means."""


class GreedyGap:
    """Compares the returns of training and evaluation over the newest epochs."""

    def __init__(self) -> None:
        self._epochs: deque[_Epoch] = deque(maxlen=_EPOCHS)

    def add(self, metrics: dict[str, float]) -> None:
        """Take in an epoch's metrics; one without episodes of both kinds is left out."""
        means, spreads, counts = (
            [metrics.get(f"{kind}/{name}", math.nan) for kind in ("train", "eval")]
            for name in ("return_mean", "return_std", "episodes")
        )
        if all(map(math.isfinite, [*means, *spreads, *counts])) and min(counts) >= 1:
            variance = sum(spread**2 / count for spread, count in zip(spreads, counts, strict=True))
            self._epochs.append(_Epoch(means[0], means[1], spreads[0], variance))

    def find(self) -> Gap | None:
        """The mean returns where training's are far higher: in every epoch, beyond chance, and by much."""
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
