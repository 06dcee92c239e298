"""Adapts the policy of a run to a task, after training."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maze_core.base.errors import ConfigError
from maze_core.collect.pools.workers import Shared
from maze_core.models.parameters import state_arrays
from maze_meta.config import MAMLConfig
from maze_meta.maml import adapted_parameters, rows_of
from maze_meta.player import Job, player_of

if TYPE_CHECKING:
    from maze_core.data.rollout import Rollout
    from maze_core.run.run import Run


@dataclass(frozen=True, slots=True)
class Adaptation:
    """Mean returns of the episodes that ended in the rollouts of a task; nan where none did."""

    before: float
    """With the policy as it was."""
    after: float
    """After the step."""


def adapt(run: Run, task: Any, number: int = 0) -> Adaptation:
    """Let the policy of a run take the inner step on rollouts of a task; it stays adapted.

    Args:
        run: of `RunContext.open`, or one that trained.
        task: arguments of the environment, by name, where `algorithm.tasks` names some; else what `set_task` takes.
        number: another one plays other episodes.

    Raises:
        ConfigError: the run is not one of MAML, or the environment refuses the task.
    """
    config = run.config.algorithm
    if not isinstance(config, MAMLConfig):
        raise ConfigError(f"a run of {config.name} is not adapted", "algorithm.name", "Next: a run of maml.")
    player, initial = player_of(run, config), dict(run.policy.named_parameters())

    def played() -> Rollout:
        # Training's paths begin with the number of an update.
        return player.run(Job(task, state_arrays(run.policy), (2**32 - 1, number)), Shared(0, {}))

    with closing(player):
        player.setup(0)
        before = played()
        rows = rows_of(before, run.policy, initial, config)
        moved = adapted_parameters(run.policy, initial, rows, config.inner_lr, second_order=False)
        with torch.no_grad():
            for name, parameter in initial.items():
                parameter.copy_(moved[name])
        return Adaptation(_mean_return(before), _mean_return(played()))


def _mean_return(rollout: Rollout) -> float:
    return float(np.mean([each.episode_return for each in rollout.episodes])) if rollout.episodes else float("nan")
