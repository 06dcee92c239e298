"""Maze: applied reinforcement learning in which everything is a plugin.

The names here are what plugin authors and users build on; they load when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maze_core.config.base import PluginConfig as PluginConfig
    from maze_core.config.run import AlgorithmConfig as AlgorithmConfig
    from maze_core.context import RunContext as RunContext
    from maze_core.data.batch import Batch as Batch
    from maze_core.data.batch import Loss as Loss
    from maze_core.data.trajectories import Trajectories as Trajectories
    from maze_core.data.trajectories import Trajectory as Trajectory
    from maze_core.data.trajectories_loader import load_trajectories as load_trajectories
    from maze_core.data.trajectories_writer import TrajectoryWriter as TrajectoryWriter
    from maze_core.envs.events import Event as Event
    from maze_core.envs.events import Events as Events
    from maze_core.envs.turns import ActorSpaces as ActorSpaces
    from maze_core.envs.turns import Turn as Turn
    from maze_core.envs.turns import TurnEnv as TurnEnv
    from maze_core.errors import ConfigError as ConfigError
    from maze_core.errors import MazeError as MazeError
    from maze_core.errors import RunError as RunError
    from maze_core.models.policy import Policy as Policy
    from maze_core.plugins.base import Plugin as Plugin
    from maze_core.plugins.hookspecs import hookimpl as hookimpl
    from maze_core.policies.base import ActingPolicy as ActingPolicy
    from maze_core.training.algorithm import Algorithm as Algorithm
    from maze_core.training.report import EpochReport as EpochReport
    from maze_core.training.report import RunSummary as RunSummary
    from maze_core.training.rollout_collector import RolloutCollector as RolloutCollector
    from maze_core.training.run import Run as Run

_HOMES = {
    "ActingPolicy": "maze_core.policies.base",
    "ActorSpaces": "maze_core.envs.turns",
    "Algorithm": "maze_core.training.algorithm",
    "AlgorithmConfig": "maze_core.config.run",
    "Batch": "maze_core.data.batch",
    "ConfigError": "maze_core.errors",
    "EpochReport": "maze_core.training.report",
    "Event": "maze_core.envs.events",
    "Events": "maze_core.envs.events",
    "Loss": "maze_core.data.batch",
    "MazeError": "maze_core.errors",
    "Plugin": "maze_core.plugins.base",
    "PluginConfig": "maze_core.config.base",
    "Policy": "maze_core.models.policy",
    "RolloutCollector": "maze_core.training.rollout_collector",
    "Run": "maze_core.training.run",
    "RunContext": "maze_core.context",
    "RunError": "maze_core.errors",
    "RunSummary": "maze_core.training.report",
    "Trajectories": "maze_core.data.trajectories",
    "Trajectory": "maze_core.data.trajectories",
    "TrajectoryWriter": "maze_core.data.trajectories_writer",
    "Turn": "maze_core.envs.turns",
    "TurnEnv": "maze_core.envs.turns",
    "hookimpl": "maze_core.plugins.hookspecs",
    "load_trajectories": "maze_core.data.trajectories_loader",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
