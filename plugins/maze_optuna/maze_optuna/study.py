"""An Optuna study whose trials are identified by Maze's numbers."""

from __future__ import annotations

import json
import warnings
import zlib
from pathlib import Path

import optuna
from maze_sweep.searchers.base import Search
from maze_sweep.searchers.space import Choices, Dimension, Point
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.study import StudyDirection
from optuna.trial import TrialState

from maze_core.base.errors import ConfigError
from maze_core.base.files import open_file
from maze_optuna.config import OptunaConfig

JOURNAL = "optuna.journal"
STUDY = "sweep"
_NUMBER = "maze_trial"
"""The attribute of Optuna's trials that holds Maze's number."""


class SweepStudy:
    """The study in a sweep's folder, new or continued."""

    def __init__(self, config: OptunaConfig, search: Search) -> None:
        self._config = config
        self._search = search
        self._verbosity: int | None = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        _drop_torn_line(search.folder / JOURNAL)
        backend = JournalFileBackend(str(search.folder / JOURNAL), lock_obj=_NoLock(JOURNAL))
        self._study = optuna.create_study(
            storage=optuna.storages.JournalStorage(backend),
            study_name=STUDY,
            direction="maximize" if search.maximize else "minimize",
            pruner=self._pruner(),
            load_if_exists=True,
        )
        if (self._study.direction == StudyDirection.MAXIMIZE) != search.maximize:
            raise ConfigError("this search has begun in the other direction", "minimize", "Next: name another folder.")
        self._trials: dict[int, optuna.Trial] = {}
        for each in self._study.get_trials(deepcopy=False):
            number = each.user_attrs.get(_NUMBER)
            if number is not None:
                self._trials[number] = optuna.Trial(self._study, each._trial_id)
            elif not each.state.is_finished():  # killed before it got its number: it is never run
                self._study.tell(each.number, state=TrialState.FAIL)

    def ask(self, number: int) -> Point:
        """Return the point of this number if it exists, else the most promising new one."""
        if number not in self._trials:
            self._study.sampler = self._sampler(number)
            trial = self._study.ask()
            trial.set_user_attr(_NUMBER, number)
            self._trials[number] = trial
        # A trial killed between two of these continues: earlier suggestions are kept.
        return {path: _suggest(self._trials[number], path, each) for path, each in self._search.space.items()}

    def tell(self, number: int, value: float | None) -> None:
        """Record the value; later calls are ignored."""
        state = TrialState.FAIL if value is None else TrialState.COMPLETE
        self._study.tell(self._trials[number], value, state, skip_if_finished=True)

    def prune(self, number: int, epoch: int, value: float) -> bool:
        """Record the value after an epoch, and return the pruner's decision."""
        if self._config.pruner == "none":
            return False
        trial = self._trials[number]
        known = self._study.get_trials(deepcopy=False)[trial.number]
        if known.state.is_finished():  # it was told or pruned, and the sweep was killed before it saved that
            return known.state == TrialState.PRUNED
        if epoch in known.intermediate_values:
            return False
        trial.report(value, epoch)
        if not trial.should_prune():
            return False
        self._study.tell(trial, state=TrialState.PRUNED)
        return True

    def close(self) -> None:
        """Restore Optuna's log level."""
        if self._verbosity is not None:
            optuna.logging.set_verbosity(self._verbosity)
            self._verbosity = None

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        """Return a sampler seeded by the trial's number, so that an interruption of the sweep has no effect."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.samplers.TPESampler(
                n_startup_trials=self._config.n_startup_trials,
                multivariate=self._config.multivariate,
                constant_liar=True,  # concurrent trials avoid each other's points
                seed=zlib.crc32(f"{self._search.seed}/{number}".encode()),
            )

    def _pruner(self) -> optuna.pruners.BasePruner:
        if self._config.pruner == "none":
            return optuna.pruners.NopPruner()
        # Optuna counts steps from 0, Maze counts epochs from 1.
        return optuna.pruners.MedianPruner(self._config.pruner_startup_trials, self._config.pruner_warmup_epochs + 1)


class _NoLock(JournalFileOpenLock):
    """No lock: the sweep's folder is already locked, and Optuna's own lock would survive a killed process."""

    def acquire(self) -> bool:
        """Return True: no other process writes."""
        return True

    def release(self) -> None:
        """Do nothing: no lock is held."""


def _suggest(trial: optuna.Trial, path: str, dimension: Dimension) -> object:
    if isinstance(dimension, Choices):
        # As texts: Optuna does not support lists, and its own tools show texts.
        texts = [json.dumps(value) for value in dimension.values]
        return dimension.values[texts.index(trial.suggest_categorical(path, texts))]
    if dimension.whole:
        return trial.suggest_int(path, int(dimension.low), int(dimension.high), log=dimension.log)
    return trial.suggest_float(path, dimension.low, dimension.high, log=dimension.log)


def _drop_torn_line(journal: Path) -> None:
    """Remove an incomplete last line, left by a killed process: Optuna would append to it."""
    try:
        with open_file(journal, "r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{journal} cannot be used: {error.strerror}") from error
