"""Checks whether an algorithm learns at all."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from maze_core import MazeError
from maze_core.run import api
from maze_devkit import runs
from maze_devkit.findings import Failed, NotApplicable
from maze_devkit.probes import Signal
from maze_devkit.subject import Subject

LEARNING: Mapping[str, Any] = {
    "epoch_length": 10,
    "lr": 3e-3,
    "n_rollout_steps": 32,
    "batch_size": 64,
    "initial_buffer_size": 100,
    "gamma": 0.5,
}
"""Values for a problem that is solved in seconds, of the parameters that algorithms share."""
DEFAULTS = ("num_envs", "n_optimization_epochs")
"""Parameters that keep the algorithm's own defaults, which other runs of the kit make smaller."""
EPOCHS = 20
REACHED = 0.9
"""Fraction of the best return that must be reached."""


def learns(subject: Subject) -> None:
    """Run the check."""
    env = functools.partial(Signal, runs.continuous(subject))
    fields, asked = subject.plugin.Config.model_fields, subject.trial(env).parameters
    wanted = {**LEARNING, **{name: fields[name].default for name in DEFAULTS if name in fields}}
    own = {name: value for name, value in wanted.items() if name in fields and name not in asked}
    values = {
        **{f"algorithm.{name}": value for name, value in own.items()},
        "algorithm.n_epochs": EPOCHS,
        "evaluation.n_episodes": 10,
        "evaluation.num_envs": 4,
    }
    best = -math.inf
    with runs.started(subject, env, subject.folder / "run", values) as run:
        for epoch in range(1, EPOCHS + 1):
            run.until_epoch = epoch
            try:
                summary = api.carry_out(run)
            except (MazeError, RuntimeError, ValueError) as error:
                raise NotApplicable(runs.BROKEN_RUN) from error
            best = max(best, summary.final_evaluation.get("eval/return_mean", -math.inf) / Signal.length)
            if best >= REACHED:
                return
    raise Failed(f"after {EPOCHS} epochs and {run.env_steps:,} steps the best evaluation is {best:.2f} of 1 per step")
