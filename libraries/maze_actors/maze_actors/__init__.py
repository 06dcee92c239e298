"""Environments in which several act: actors that take turns, agents with a row each, and the routes of networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_core.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from maze_actors.agent_rows import ActorSpaces as ActorSpaces
    from maze_actors.agents import LimitedAgents as LimitedAgents
    from maze_actors.agents import MultiAgentEnv as MultiAgentEnv
    from maze_actors.agents import Round as Round
    from maze_actors.agents import WrappedAgents as WrappedAgents
    from maze_actors.turns import Turn as Turn
    from maze_actors.turns import TurnEnv as TurnEnv
    from maze_actors.vector_env import AgentsVectorEnv as AgentsVectorEnv

_HOMES = {
    "ActorSpaces": "maze_actors.agent_rows",
    "AgentsVectorEnv": "maze_actors.vector_env",
    "LimitedAgents": "maze_actors.agents",
    "MultiAgentEnv": "maze_actors.agents",
    "Round": "maze_actors.agents",
    "Turn": "maze_actors.turns",
    "TurnEnv": "maze_actors.turns",
    "WrappedAgents": "maze_actors.agents",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
