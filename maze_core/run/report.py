"""What observers receive: the report of an epoch and the summary of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from maze_core.plugins.extensions import NOTEBOOK, extension

if TYPE_CHECKING:
    from pandas import DataFrame

    from maze_core.data.rollout import Trajectory


@dataclass(frozen=True, slots=True)
class EpochReport:
    """One epoch, finished and evaluated."""

    epoch: int
    """Number of the epoch, from 1."""
    env_steps: int
    """Environment steps since the start of the run, over all training environments."""
    updates: int
    """Updates since the start of the run."""
    seconds: float
    """Seconds of training since the start of the run, summed over resumed parts."""
    metrics: dict[str, float] = field(default_factory=dict)
    """`train/…`, `eval/…`, `loss/…`, `time/…`; a metric with nothing to average is nan."""
    is_best: bool = False
    """True if this epoch's evaluation beats all before it."""
    ties_best: bool = False
    """True if it equals the best before it. The checkpoint `best` is then replaced by the newer one."""
    histograms: dict[str, Any] = field(default_factory=dict)
    """Histograms by metric name, such as those of events."""
    figures: dict[str, Any] = field(default_factory=dict)
    """Pictures by name: arrays of uint8 `[height, width]` or `[height, width, 3]`, or figures of matplotlib."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How a run ended."""

    outcome: Literal["finished", "stopped", "interrupted", "failed"]
    """finished: the steps or epochs were done; stopped: a callback asked; interrupted: a signal; failed: an error."""
    reason: str
    """One plain sentence."""
    epochs: int
    env_steps: int
    updates: int
    seconds: float
    final_evaluation: dict[str, float] = field(default_factory=dict)
    """`eval/…` metrics of the final parameters; empty where the run failed."""
    best_score: float | None = None
    best_epoch: int | None = None
    """The last epoch whose evaluation reached `best_score`, which the checkpoint `best` holds."""
    best_violation: float = 0.0
    """By how much it violates the constraints, in units of their limits; 0: it satisfies them."""


def _to_frame(found: Any) -> DataFrame:
    """Return a data frame of pandas: one row for scores, one for each step of episodes."""
    return extension(NOTEBOOK, "frame", "a data frame", "maze-notebook")(found)


class Scores(dict[str, float]):
    """`eval/…` metrics by name."""

    to_frame = _to_frame


class Played(list["Trajectory"]):
    """Episodes that were played."""

    to_frame = _to_frame
