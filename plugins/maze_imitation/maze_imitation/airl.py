"""Adversarial inverse reinforcement learning (Fu, Luo and Levine, arXiv 1710.11248)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from maze_imitation.config import AIRLConfig
from maze_imitation.gail import GAIL

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core.plugins.config.run import AlgorithmConfig


class AIRL(GAIL):
    """Adversarial inverse reinforcement learning from recorded trajectories, on-policy, for every action space.

    The discriminator holds a reward of its own, g(s, a), and a potential h(s) that shapes it.
    """

    Config: ClassVar[type[AlgorithmConfig]] = AIRLConfig
    supports_memory = False
    supports_learners = True
    shaped = True

    @property
    def sequence_length(self) -> None:
        """Return None: there is no memory."""
        return

    def reward(self, logits: Tensor) -> Tensor:
        """Return log D - log(1 - D), which are the logits, [B]."""
        return logits
