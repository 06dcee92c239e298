"""Schedules of a parameter over a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_core.base.errors import ConfigError

if TYPE_CHECKING:
    from maze_core.plugins.config.run import RunConfig


def scheduled(schedule: str, fraction_done: float) -> float:
    """Return the factor for a parameter when the fraction `fraction_done` (0 to 1) of the run is done.

    The fraction stays 0 in a run whose end is open, where `auto` is constant.
    """
    return 1.0 if schedule == "constant" else 1.0 - fraction_done


def check_schedules(config: RunConfig) -> None:
    """Raise ConfigError if a parameter `…_schedule` needs the run's end and the run has none."""
    if config.steps is not None or config.algorithm.n_epochs:
        return
    for name, schedule in config.algorithm:
        if name.endswith("_schedule") and schedule == "linear":
            raise ConfigError(
                f"a {schedule} schedule needs to know when the run ends",
                f"algorithm.{name}",
                "Next: --steps or --epochs",
            )
