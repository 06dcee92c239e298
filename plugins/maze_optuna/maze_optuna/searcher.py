"""The searcher `optuna`: points where good ones are likely, learned from the trials before."""

from __future__ import annotations

import json
import warnings
import zlib
from typing import ClassVar, Literal

import optuna
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import TrialState
from pydantic import NonNegativeInt, PositiveInt

from maze_core.config.base import PluginConfig
from maze_core.errors import ConfigError
from maze_core.searchers.base import Search, Searcher
from maze_core.searchers.space import Choices, Dimension, Point

JOURNAL = "optuna.journal"
STUDY = "sweep"
_NUMBER = "maze_trial"
"""The attribute of Optuna's trials that holds the number Maze knows them by."""


class OptunaConfig(PluginConfig):
    """How Optuna searches."""

    n_startup_trials: PositiveInt = 10
    """Trials drawn at random before the model of the space is used."""
    multivariate: bool = True
    """Model how the paths work together, rather than each alone."""
    pruner: Literal["none", "median"] = "none"
    """`median`: break trials off whose best value so far is below the median of the others after as many epochs."""
    pruner_startup_trials: NonNegativeInt = 5
    """Trials that must have ended before one is pruned."""
    pruner_warmup_epochs: NonNegativeInt = 5
    """Epochs that no trial is pruned in."""


class OptunaSearcher(Searcher):
    """Search by a tree-structured Parzen estimator (TPE) that learns from the trials before; may prune trials.

    The study is kept in `optuna.journal` in the sweep's folder, where Optuna's own tools can open it. With one job, a
    sweep that was broken off and gone on with tries the same points as one that was not.
    """

    Config: ClassVar[type[PluginConfig]] = OptunaConfig
    _verbosity: int | None = None

    def setup(self, search: Search) -> int:
        """Open the study in the sweep's folder, or begin it."""
        if search.trials is None:
            raise ConfigError("say how many points to try", "--trials", "Next: --trials 20")
        self._search = search
        self._verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        backend = JournalFileBackend(str(search.folder / JOURNAL), lock_obj=_NoLock(JOURNAL))
        self._study = optuna.create_study(
            storage=optuna.storages.JournalStorage(backend),
            study_name=STUDY,
            direction="maximize" if search.maximize else "minimize",
            pruner=self._pruner(),
            load_if_exists=True,
        )
        self._trials: dict[int, optuna.Trial] = {}
        for each in self._study.get_trials(deepcopy=False):
            number = each.user_attrs.get(_NUMBER)
            if number is not None:
                self._trials[number] = optuna.Trial(self._study, each._trial_id)
            elif not each.state.is_finished():  # killed before it got its number: nobody ever runs it
                self._study.tell(each.number, state=TrialState.FAIL)
        return search.trials

    def ask(self, number: int) -> Point:
        """The point that the study has for this number, or else the one that promises most."""
        if number not in self._trials:
            self._study.sampler = self._sampler(number)
            trial = self._study.ask()
            trial.set_user_attr(_NUMBER, number)
            self._trials[number] = trial
        # A trial that was killed between two of these goes on where it was: what is suggested stays.
        return {path: _suggest(self._trials[number], path, each) for path, each in self._search.space.items()}

    def tell(self, number: int, point: Point, value: float | None) -> None:
        """Note the value, the first time."""
        state = TrialState.FAIL if value is None else TrialState.COMPLETE
        self._study.tell(self._trials[number], value, state, skip_if_finished=True)

    def prune(self, number: int, epoch: int, value: float) -> bool:
        """Note the value after an epoch, and ask the pruner."""
        trial = self._trials[number]
        if self.config.pruner == "none" or epoch in _frozen(trial).intermediate_values:
            return False
        trial.report(value, epoch)
        if not trial.should_prune():
            return False
        self._study.tell(trial, state=TrialState.PRUNED)
        return True

    def close(self) -> None:
        """Let Optuna speak as it did before."""
        if self._verbosity is not None:
            optuna.logging.set_verbosity(self._verbosity)
            self._verbosity = None

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        """A sampler for one trial: seeded by its number, so that it does not matter when the sweep was broken off."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.samplers.TPESampler(
                n_startup_trials=self.config.n_startup_trials,
                multivariate=self.config.multivariate,
                constant_liar=True,  # trials under way at the same time keep away from each other
                seed=zlib.crc32(f"{self._search.seed}/{number}".encode()),
            )

    def _pruner(self) -> optuna.pruners.BasePruner:
        if self.config.pruner == "none":
            return optuna.pruners.NopPruner()
        # Optuna counts steps from 0, Maze counts epochs from 1.
        return optuna.pruners.MedianPruner(self.config.pruner_startup_trials, self.config.pruner_warmup_epochs + 1)


class _NoLock(JournalFileOpenLock):
    """No lock: the sweep's folder is locked as a whole, and Optuna's own lock would survive a killed process."""

    def acquire(self) -> bool:
        """Nobody else writes."""
        return True

    def release(self) -> None:
        """Nothing is held."""


def _suggest(trial: optuna.Trial, path: str, dimension: Dimension) -> object:
    if isinstance(dimension, Choices):
        # As texts: Optuna knows no lists, and its own tools show them so.
        texts = [json.dumps(value) for value in dimension.values]
        return dimension.values[texts.index(trial.suggest_categorical(path, texts))]
    if dimension.whole:
        return trial.suggest_int(path, int(dimension.low), int(dimension.high), log=dimension.log)
    return trial.suggest_float(path, dimension.low, dimension.high, log=dimension.log)


def _frozen(trial: optuna.Trial) -> optuna.trial.FrozenTrial:
    return trial.study.get_trials(deepcopy=False)[trial.number]
