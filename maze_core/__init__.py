"""Maze: applied reinforcement learning in which everything is a plugin.

The names here are what plugin authors and users build on; they load when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maze_core.base.errors import ConfigError as ConfigError
    from maze_core.base.errors import MazeError as MazeError
    from maze_core.base.errors import RunError as RunError
    from maze_core.collect.policies.base import ActingPolicy as ActingPolicy
    from maze_core.data.batch import Batch as Batch
    from maze_core.data.batch import Loss as Loss
    from maze_core.data.rollout import Trajectory as Trajectory
    from maze_core.envs.events.event import Event as Event
    from maze_core.envs.events.event import Events as Events
    from maze_core.envs.several.agent_rows import ActorSpaces as ActorSpaces
    from maze_core.envs.several.turns import Turn as Turn
    from maze_core.envs.several.turns import TurnEnv as TurnEnv
    from maze_core.learn.algorithm import Algorithm as Algorithm
    from maze_core.models.policy import Policy as Policy
    from maze_core.plugins.base import Plugin as Plugin
    from maze_core.plugins.config.base import PluginConfig as PluginConfig
    from maze_core.plugins.config.run import AlgorithmConfig as AlgorithmConfig
    from maze_core.plugins.hookspecs import hookimpl as hookimpl
    from maze_core.run.context import RunContext as RunContext
    from maze_core.run.report import EpochReport as EpochReport
    from maze_core.run.report import RunSummary as RunSummary
    from maze_core.run.run import Run as Run

_HOMES = {
    "ActingPolicy": "maze_core.collect.policies.base",
    "ActorSpaces": "maze_core.envs.several.agent_rows",
    "Algorithm": "maze_core.learn.algorithm",
    "AlgorithmConfig": "maze_core.plugins.config.run",
    "Batch": "maze_core.data.batch",
    "ConfigError": "maze_core.base.errors",
    "EpochReport": "maze_core.run.report",
    "Event": "maze_core.envs.events.event",
    "Events": "maze_core.envs.events.event",
    "Loss": "maze_core.data.batch",
    "MazeError": "maze_core.base.errors",
    "Plugin": "maze_core.plugins.base",
    "PluginConfig": "maze_core.plugins.config.base",
    "Policy": "maze_core.models.policy",
    "Run": "maze_core.run.run",
    "RunContext": "maze_core.run.context",
    "RunError": "maze_core.base.errors",
    "RunSummary": "maze_core.run.report",
    "Trajectory": "maze_core.data.rollout",
    "Turn": "maze_core.envs.several.turns",
    "TurnEnv": "maze_core.envs.several.turns",
    "hookimpl": "maze_core.plugins.hookspecs",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("maze-core")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
