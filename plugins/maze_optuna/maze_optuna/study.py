"""An Optuna study whose trials are identified by Maze's numbers."""

from __future__ import annotations

import json
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from maze_sweep.searchers.base import Search
from maze_sweep.searchers.space import Choices, Dimension, Point
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.study import StudyDirection
from optuna.trial import TrialState

from maze_core import ConfigError
from maze_core.base.files import open_file
from maze_core.base.plain_json import is_count
from maze_core.base.terminal_text import printable, shown
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
        self._journal = search.folder / JOURNAL
        _drop_torn_line(self._journal)
        backend = JournalFileBackend(str(self._journal), lock_obj=_NoLock(JOURNAL))
        with self._reading():
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
        with self._reading():
            self._read_trials()

    def _read_trials(self) -> None:
        for each in self._study.get_trials(deepcopy=False):
            number = each.user_attrs.get(_NUMBER)
            if number is not None and not is_count(number):
                raise ValueError(f"{shown(number)} is no number of a trial")
            if number is not None:
                self._trials[number] = optuna.Trial(self._study, each._trial_id)
            elif not each.state.is_finished():  # killed before it got its number: it is never run
                self._study.tell(each.number, state=TrialState.FAIL)

    def ask(self, number: int) -> Point:
        """Return the point of this number if it exists, else the most promising new one."""
        if number not in self._trials:
            return self._begun(number)
        # A trial killed between two suggestions continues: earlier ones are kept.
        with self._reading():
            return self._suggested(number)

    def _begun(self, number: int) -> Point:
        self._study.sampler = self._sampler(number)
        trial = self._study.ask()
        trial.set_user_attr(_NUMBER, number)
        self._trials[number] = trial
        return self._suggested(number)

    def _suggested(self, number: int) -> Point:
        return {path: _suggest(self._trials[number], path, each) for path, each in self._search.space.items()}

    def tell(self, number: int, point: Point, value: float | None) -> None:
        """Record the value; later calls are ignored. A trial is added where a journal that was deleted held it."""
        if number not in self._trials:
            self._study.enqueue_trial({path: _as_kept(each, point[path]) for path, each in self._search.space.items()})
            self._begun(number)
        state = TrialState.FAIL if value is None else TrialState.COMPLETE
        self._study.tell(self._trials[number], value, state, skip_if_finished=True)

    def prune(self, number: int, epoch: int, value: float) -> bool:
        """Record the value after an epoch, and return the pruner's decision."""
        if self._config.pruner == "none" or number not in self._trials:
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

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Name the journal, which anyone may have written, where Optuna cannot use what it says."""
        try:
            yield
        except OSError:
            raise
        except Exception as error:
            reason = printable(f"{type(error).__name__}: {error}", 200)
            hint = "Delete it: the points and values of the trials so far are told to a new one."
            raise ConfigError(f"{printable(self._journal)} is damaged: {reason}", hint=hint) from error

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


def _as_kept(dimension: Dimension, value: Any) -> Any:
    return json.dumps(value) if isinstance(dimension, Choices) else value


def _suggest(trial: optuna.Trial, path: str, dimension: Dimension) -> object:
    if isinstance(dimension, Choices):
        # As texts: Optuna does not support lists, and its own tools show texts.
        texts = [_as_kept(dimension, value) for value in dimension.values]
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
