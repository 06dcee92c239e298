"""Adversarial inverse reinforcement learning (Fu, Luo and Levine, arXiv 1710.11248)."""

from __future__ import annotations

from maze_imitation.config import AIRLConfig
from maze_imitation.gail import GAIL


class AIRL(GAIL):
    """Adversarial inverse reinforcement learning from recorded trajectories, on-policy, for every action space.

    The discriminator holds a reward of its own, g(s, a), and a potential h(s) that shapes it.
    """

    Config = AIRLConfig
    supports_memory = False
    supports_learners = True
    shaped = True
