"""The parameters of the searcher `optuna`."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from maze_core import PluginConfig


class OptunaConfig(PluginConfig):
    """How Optuna searches."""

    n_startup_trials: PositiveInt = 10
    """Random trials before the model of the search space is used."""
    multivariate: bool = True
    """Model the paths jointly instead of each alone."""
    pruner: Literal["none", "median"] = "none"
    """`median`: stop trials whose best value so far is below the median of the others after the same number of
    epochs."""
    pruner_startup_trials: NonNegativeInt = 5
    """Trials that must end before any trial is pruned."""
    pruner_warmup_epochs: NonNegativeInt = 5
    """First epochs of a trial, during which it is not pruned."""
