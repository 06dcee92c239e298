"""The searcher `optuna`: chooses promising points, learned from earlier trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from maze_sweep.searchers.base import Search, Searcher
from maze_sweep.searchers.space import Point

from maze_core import ConfigError, PluginConfig
from maze_optuna.config import OptunaConfig

if TYPE_CHECKING:
    from maze_optuna.study import SweepStudy


class OptunaSearcher(Searcher):
    """Search by a tree-structured Parzen estimator (TPE) that learns from the trials before; may prune trials.

    The study is kept in `optuna.journal` in the sweep's folder, where Optuna's own tools can open it. With one job, a
    sweep that was interrupted and continued tries the same points as one that was not.
    """

    Config: ClassVar[type[PluginConfig]] = OptunaConfig
    study: SweepStudy | None = None
    """The study; None before `setup`."""

    def setup(self, search: Search) -> int:
        """Open or create the study in the sweep's folder."""
        if search.trials is None:
            raise ConfigError("the number of points to try is missing", "--trials", "Next: --trials 20")
        from maze_optuna.study import SweepStudy  # imports optuna, which takes a second

        self.study = SweepStudy(self.config, search)
        return search.trials

    def ask(self, number: int) -> Point:
        """Return the study's point of this number if it exists, else the most promising new one."""
        return self._begun().ask(number)

    def tell(self, number: int, point: Point, value: float | None) -> None:
        """Record the value; later calls are ignored."""
        self._begun().tell(number, point, value)

    def prune(self, number: int, epoch: int, value: float) -> bool:
        """Record the value after an epoch, and return the pruner's decision."""
        return self._begun().prune(number, epoch, value)

    def close(self) -> None:
        """Restore Optuna's log level."""
        if self.study is not None:
            self.study.close()

    def _begun(self) -> SweepStudy:
        if self.study is None:
            raise RuntimeError("`setup` must be called first")
        return self.study
