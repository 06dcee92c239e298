"""Environments in worker processes, as the runner `local` steps them, without a run."""

from __future__ import annotations

from maze_local.pooled_envs import PooledVectorEnv
from maze_local.runner import LocalConfig, LocalRunner


def process_envs(make, num_envs, workers, **config):
    """Build environments with a function of their number, or an `EnvBuilder`; `config`: that of the runner."""
    runner = LocalRunner(LocalConfig(name="local", **config))
    return PooledVectorEnv(make, num_envs, workers, runner.collectors)
