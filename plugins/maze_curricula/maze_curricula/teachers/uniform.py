"""Domain randomisation: all parameters are equally likely, always."""

from __future__ import annotations

from typing import Any

from maze_curricula.teacher import Teacher


class Uniform(Teacher):
    """Draw parameters uniformly from their ranges: domain randomisation.

    Source: Tobin et al., 2017, "Domain Randomization for Transferring Deep Neural Networks from Simulation to the Real
    World", https://arxiv.org/abs/1703.06907
    """

    def next(self, count: int) -> list[dict[str, Any]]:
        """Draw so many."""
        return [self.space.sample(self.rng) for _ in range(count)]
