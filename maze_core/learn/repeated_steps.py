"""Steps of the learner that are made once and then repeated. Another distribution, maze-compile, makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from maze_core.plugins.extensions import installed, not_installed

if TYPE_CHECKING:
    from maze_core.data.batch import Batch
    from maze_core.plugins.hookspecs import Run

REPEATED_STEPS = "maze.repeated_steps"
"""The entry-point group for what repeats steps: `steps` is called with a run, and returns what repeats its steps."""


class RepeatedSteps(Protocol):
    """Takes the steps of a run in place of its learner."""

    recording: bool
    """True while a step is made that will be repeated: what it does in Python is done once."""

    def begin_epoch(self) -> None:
        """Look at what has changed since the last epoch."""

    def step(self, batch: Batch) -> None:
        """Take the learner's step on a batch, as its code would."""

    def close(self) -> None:
        """Release what the steps hold."""


def repeated_steps(run: Run) -> RepeatedSteps | None:
    """Return what repeats a run's steps; None: all are taken as usual.

    Raises:
        ConfigError: they are asked for, and nothing is installed that makes them.
    """
    config = run.config
    if not (config.cuda_graphs if run.device.type == "cuda" else config.compile != "off"):
        return None
    make = installed(REPEATED_STEPS, "steps")
    if make is not None:
        steps: RepeatedSteps | None = make(run)
        return steps
    if config.compile == "on":
        raise not_installed("compiled steps need", "maze-compile", "compile", ", or --set compile=off")
    return None
