"""Ape-X: DQN whose actors and learner do not wait for each other (Horgan et al. 2018, arXiv 1803.00933)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from maze_dqn.actor_replay import ActorReplay
from maze_dqn.config import ApexConfig
from maze_dqn.dqn import DQN

if TYPE_CHECKING:
    from maze_core import AlgorithmConfig, Run


class Apex(DQN):
    """Deep Q-learning from a replay that actors fill while the learner learns."""

    Config: ClassVar[type[AlgorithmConfig]] = ApexConfig
    config: ApexConfig
    supports_agents = False
    supports_memory = False
    calls = ("compute_loss", "change_transitions")

    def collector(self, run: Run) -> ActorReplay:
        """Start the actors; return the replay that they fill."""
        return ActorReplay(run, self.config)
