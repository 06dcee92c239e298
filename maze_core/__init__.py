"""Maze: applied reinforcement learning in which everything is a plugin.

The names here are what plugin authors and users build on; they load when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_core.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from maze_core.base.errors import ConfigError as ConfigError
    from maze_core.base.errors import MazeError as MazeError
    from maze_core.base.errors import PluginError as PluginError
    from maze_core.base.errors import RunError as RunError
    from maze_core.base.saved_state import Count as Count
    from maze_core.base.saved_state import varies as varies
    from maze_core.base.seeding import EpisodeSeeds as EpisodeSeeds
    from maze_core.base.seeding import Purpose as Purpose
    from maze_core.base.seeding import generator as generator
    from maze_core.base.seeding import torch_generator as torch_generator
    from maze_core.base.tree import TensorTree as TensorTree
    from maze_core.base.tree import Tree as Tree
    from maze_core.base.tree import map_tree as map_tree
    from maze_core.base.tree import subtree as subtree
    from maze_core.base.tree import take_rows as take_rows
    from maze_core.base.tree import to_arrays as to_arrays
    from maze_core.collect.agents.network import NetworkAgent as NetworkAgent
    from maze_core.collect.collector import Collector as Collector
    from maze_core.collect.policies.base import ActingPolicy as ActingPolicy
    from maze_core.collect.pools.workers import JobResult as JobResult
    from maze_core.collect.pools.workers import Shared as Shared
    from maze_core.collect.pools.workers import Task as Task
    from maze_core.data.batch import ROW_WEIGHT as ROW_WEIGHT
    from maze_core.data.batch import Batch as Batch
    from maze_core.data.batch import Loss as Loss
    from maze_core.data.batch import to_tensors as to_tensors
    from maze_core.data.rollout import Rollout as Rollout
    from maze_core.data.rollout import Trajectory as Trajectory
    from maze_core.data.sequences import POLICY as POLICY
    from maze_core.data.sequences import Sequences as Sequences
    from maze_core.envs.builder import EnvBuilder as EnvBuilder
    from maze_core.envs.in_process import vector_env as vector_env
    from maze_core.envs.spaces import flatten_space as flatten_space
    from maze_core.envs.vector import VectorEnv as VectorEnv
    from maze_core.learn.algorithm import Algorithm as Algorithm
    from maze_core.learn.optimizers import Adam as Adam
    from maze_core.learn.optimizers import Optimizer as Optimizer
    from maze_core.models.blocks import Dense as Dense
    from maze_core.models.blocks import check_room as check_room
    from maze_core.models.distributions.base import TreeDistribution as TreeDistribution
    from maze_core.models.memory import distribution_of as distribution_of
    from maze_core.models.memory import remembers as remembers
    from maze_core.models.policy import Policy as Policy
    from maze_core.models.policy import feature_count as feature_count
    from maze_core.plugins.base import Plugin as Plugin
    from maze_core.plugins.config.base import PluginConfig as PluginConfig
    from maze_core.plugins.config.run import AlgorithmConfig as AlgorithmConfig
    from maze_core.plugins.config.run import RunConfig as RunConfig
    from maze_core.plugins.hookspecs import hookimpl as hookimpl
    from maze_core.run.context import RunContext as RunContext
    from maze_core.run.report import EpochReport as EpochReport
    from maze_core.run.report import RunSummary as RunSummary
    from maze_core.run.run import Run as Run

_HOMES = {
    "ActingPolicy": "maze_core.collect.policies.base",
    "Adam": "maze_core.learn.optimizers",
    "Algorithm": "maze_core.learn.algorithm",
    "AlgorithmConfig": "maze_core.plugins.config.run",
    "Batch": "maze_core.data.batch",
    "Collector": "maze_core.collect.collector",
    "ConfigError": "maze_core.base.errors",
    "Count": "maze_core.base.saved_state",
    "Dense": "maze_core.models.blocks",
    "EnvBuilder": "maze_core.envs.builder",
    "EpisodeSeeds": "maze_core.base.seeding",
    "EpochReport": "maze_core.run.report",
    "JobResult": "maze_core.collect.pools.workers",
    "Loss": "maze_core.data.batch",
    "MazeError": "maze_core.base.errors",
    "NetworkAgent": "maze_core.collect.agents.network",
    "Optimizer": "maze_core.learn.optimizers",
    "POLICY": "maze_core.data.sequences",
    "Plugin": "maze_core.plugins.base",
    "PluginConfig": "maze_core.plugins.config.base",
    "PluginError": "maze_core.base.errors",
    "Policy": "maze_core.models.policy",
    "Purpose": "maze_core.base.seeding",
    "ROW_WEIGHT": "maze_core.data.batch",
    "Rollout": "maze_core.data.rollout",
    "Run": "maze_core.run.run",
    "RunConfig": "maze_core.plugins.config.run",
    "RunContext": "maze_core.run.context",
    "RunError": "maze_core.base.errors",
    "RunSummary": "maze_core.run.report",
    "Sequences": "maze_core.data.sequences",
    "Shared": "maze_core.collect.pools.workers",
    "Task": "maze_core.collect.pools.workers",
    "TensorTree": "maze_core.base.tree",
    "Trajectory": "maze_core.data.rollout",
    "Tree": "maze_core.base.tree",
    "TreeDistribution": "maze_core.models.distributions.base",
    "VectorEnv": "maze_core.envs.vector",
    "check_room": "maze_core.models.blocks",
    "distribution_of": "maze_core.models.memory",
    "feature_count": "maze_core.models.policy",
    "flatten_space": "maze_core.envs.spaces",
    "generator": "maze_core.base.seeding",
    "hookimpl": "maze_core.plugins.hookspecs",
    "map_tree": "maze_core.base.tree",
    "remembers": "maze_core.models.memory",
    "subtree": "maze_core.base.tree",
    "take_rows": "maze_core.base.tree",
    "to_arrays": "maze_core.base.tree",
    "to_tensors": "maze_core.data.batch",
    "torch_generator": "maze_core.base.seeding",
    "varies": "maze_core.base.saved_state",
    "vector_env": "maze_core.envs.in_process",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
