"""Networks that learn beside the algorithm: objects such as `SideLearner` of maze-models, which a plugin returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from maze_core.base.errors import RunError


class SideLearners:
    """All networks of a run that learn beside the algorithm, by name, such as `curiosity.predictor`."""

    def __init__(self, learners: Mapping[str, Any]) -> None:
        self._learners = learners

    def learn(self, number: int, epoch_length: int) -> None:
        """Let each take the updates that are due, see `SideLearner.learn`; an error names it."""
        for name, each in self._learners.items():
            try:
                with torch.enable_grad():
                    each.learn(number, epoch_length)
            except RunError as error:
                raise RunError(f"{name}, which learns beside the algorithm: {error}") from error

    def epoch_metrics(self) -> dict[str, float]:
        """Return the means of each, as `loss/NAME.METRIC`."""
        return {
            f"loss/{name}.{key}": v for name, each in self._learners.items() for key, v in each.epoch_metrics().items()
        }

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs besides the networks."""
        return {name: each.state() for name, each in self._learners.items()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        for name, each in self._learners.items():
            each.load_state(state[name])
