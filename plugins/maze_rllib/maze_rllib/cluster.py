"""Where RLlib's processes run: as the run's runner says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch

from maze_core import ConfigError, Purpose
from maze_core.base.seeding import integer_seed

if TYPE_CHECKING:
    from maze_core import PluginConfig, Run


def placed(rllib: Any, run: Run, *, samples: bool) -> Any:
    """Return RLlib's configuration with env runners and learners as the run says. `samples`: it steps environments.

    Raises:
        ConfigError: a GPU is wanted in this process, which sees none.
    """
    gpus = rllib.num_gpus_per_learner
    if gpus is None:
        gpus = float(run.device.type == "cuda")
    if gpus and not rllib.num_learners and not torch.cuda.is_available():
        hint = "Next: num_gpus_per_learner=0; or num_learners=1, for a learner on another node of a cluster"
        raise ConfigError("this process sees no GPU", "algorithm.num_gpus_per_learner", hint)
    rllib.learners(num_gpus_per_learner=gpus)
    rllib.env_runners(num_env_runners=_workers(run.config.runner) if samples else 0)
    rllib.fault_tolerance(restart_failed_env_runners=False, ignore_env_runner_failures=False)
    seed = integer_seed(run.config.seed or 0, Purpose.POLICY_NOISE) % 2**31
    # A thread measures the machine's load, which nothing reads; it would hold up the end of each run.
    rllib.debugging(seed=seed, log_level="CRITICAL", log_sys_usage=False)
    return rllib


def processes(rllib: Any) -> int:
    """Return the number of processes that RLlib starts."""
    return int(rllib.num_learners) + int(rllib.num_env_runners)


def _workers(runner: PluginConfig) -> int:
    """Return the number of processes that step environments: 0 on `dev`."""
    if runner.name == "dev":
        return 0
    return int(runner.plugin_class("runner")(runner).default_workers if runner.name == "ray" else _local(runner))


def _local(runner: Any) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return runner.workers or max(cores - 1, 1)
