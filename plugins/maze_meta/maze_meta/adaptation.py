"""Adapts the policy of a run to a task, after training."""

from __future__ import annotations

from contextlib import closing
from typing import Any, NamedTuple

import torch
from maze_onpolicy import TaskJob, state_arrays

from maze_core import ConfigError, Run
from maze_meta.config import MAMLConfig
from maze_meta.maml import adapted_parameters, mean_return, player_of, rows_of

_PATH = 2**32 - 1
# Training's paths begin with the number of an update.


class Adaptation(NamedTuple):
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
    config = run.algorithm.config
    if not isinstance(config, MAMLConfig):
        raise ConfigError(f"a run of {config.name} is not adapted", "algorithm.name", "Next: a run of maml.")
    initial = dict(run.policy.named_parameters())
    with closing(player_of(run, config)) as player:
        player.setup(0)
        before = player.run(TaskJob(task, state_arrays(run.policy), (_PATH, number)))
        rows = rows_of(before, run.policy, initial, config)
        moved = adapted_parameters(run.policy, initial, rows, config.inner_lr, second_order=False)
        with torch.no_grad():
            for name, parameter in initial.items():
                parameter.copy_(moved[name])
        after = player.run(TaskJob(task, state_arrays(run.policy), (_PATH, number)))
    return Adaptation(mean_return([before]), mean_return([after]))
