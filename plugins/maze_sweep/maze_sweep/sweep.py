"""A sweep: asks the searcher for points, submits runs, and tracks their progress and results."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from maze_core import ConfigError
from maze_core.base.metrics import metric_named
from maze_core.base.terminal_text import argument
from maze_core.collect.policies.said_classes import SaidClasses
from maze_core.plugins import discovery
from maze_core.plugins.closing import release
from maze_core.plugins.config.assembly import Assembly
from maze_core.plugins.direct_calls import named
from maze_core.run.saved.run_dir import lock
from maze_sweep.budget import setting, whole_of
from maze_sweep.forks import check_ends, check_forks
from maze_sweep.guard import GivenUp, GuardedSearcher
from maze_sweep.metric import MetricWatch, unrecorded
from maze_sweep.places import fresh_folder, make_folder, make_places
from maze_sweep.plan import RANKS, SweepPlan, check_continues, make_plan, read_plan, write_plan
from maze_sweep.pool import JobEnd, SweepPool
from maze_sweep.same_settings import check_same_settings
from maze_sweep.searchers.base import Begun, Done, Search, Searcher, Wait, Whole
from maze_sweep.trials import (
    RunState,
    SweepRun,
    Trial,
    holds_another,
    job_of,
    mark_pruned,
    new_trial,
    read_trials,
    write_trials,
)
from maze_sweep.validation import check_copies, check_runs, probes

_TICK = 0.5
"""Seconds between two checks of the runs."""

Watch = Callable[["Sweep", JobEnd | None], None]
"""Called with every run that ended, and with None now and then in between."""


class Sweep:
    """A sweep in a folder, new or interrupted.

    Args:
        plan: what is tried.
        folder: the sweep's own folder; None: a new one below `runs/`.
        load: how plugin classes are found. The runs get the policy classes that `said_classes` lets it find.

    Raises:
        ConfigError: the plan is not valid (a value, a path, the number of trials) or differs from that in the folder.
    """

    def __init__(self, plan: SweepPlan, folder: Path | None, load: discovery.Loader = discovery.load) -> None:
        self.plan = plan
        self._folder = None if folder is None else folder.absolute()
        self._lock: IO[bytes] | None = None
        self.interrupted_by: str | None = None
        self._assembly = Assembly(functools.cache(load))
        self._classes = tuple(sorted(load.names)) if isinstance(load, SaidClasses) else ()
        self._refused: ConfigError | None = None
        self._watched = MetricWatch(plan.metric, plan.space)
        self._before: SweepPlan | None = None
        self.trials: list[Trial] = []
        self._values_told, self._done = 0, False
        self._read_earlier()
        searcher = plan.searcher.plugin_class("searcher")
        with named("searcher", plan.searcher.name, " cannot be built"):
            self.searcher: Searcher = searcher(plan.searcher)
        self._guarded = GuardedSearcher(self.searcher, plan.searcher.name)
        self._prunes = type(self.searcher).prune is not Searcher.prune
        self.total_trials = len(self.trials)

    def _read_earlier(self) -> None:
        """Take the plan and the trials from the folder, if there are any."""
        if self._folder is not None and (before := read_plan(self._folder)):
            self._before = make_plan(before, self._assembly.load)
            check_continues(self.plan, self._before, self._folder)
            self.trials = read_trials(self._folder, self.plan)

    @property
    def folder(self) -> Path:
        """The sweep's own folder; valid after `begin`."""
        if self._folder is None:
            raise RuntimeError("this sweep has no folder until it has started")
        return self._folder

    def check(self) -> None:
        """Validate every known point; writes nothing.

        Raises:
            ConfigError: a point does not fit, or an environment cannot be built.
        """
        self._check_learned()
        check_copies(self.plan, self._assembly)
        check_runs(self.plan, probes(self.plan.space), self._assembly)
        if type(self.searcher).until is not Searcher.until:
            check_ends(self.plan)
        if self.searcher.alters:
            check_forks(self.plan, probes(self.plan.space), self._assembly)
        if self.searcher.foresees:
            self._setup_searcher(Path())
            check_runs(self.plan, map(self._guarded.foreseen, range(self.total_trials)), self._assembly)

    def look(self) -> None:
        """Take the states of all runs from the folder, to rank them; nothing is run or written."""
        for run in self.runs:
            record = run.record()
            if record is not None and run.state not in ("pruned", "failed"):
                run.state, run.reason = record.state, record.reason

    def _check_learned(self) -> None:
        """Refuse to rank by something else what the searcher has learned from, if it learns."""
        before = self._before
        if before is None or self.searcher.foresees or all(getattr(before, n) == getattr(self.plan, n) for n in RANKS):
            return
        if any(record.series(before.metric) for run in self.runs if (record := run.record()) is not None):
            raise ConfigError(
                f"the searcher {self.plan.searcher.name} has chosen points by {before.metric}",
                "metric",
                f"Next: maze sweep --dir {argument(self.folder)} --rank --metric {argument(self.plan.metric)}\n"
                "That ranks the runs that there are. A new search needs another folder.",
            )

    def begin(self) -> None:
        """Write the plan to the folder and load earlier results.

        Raises:
            ConfigError: the folder cannot be written, another process runs this sweep, the searcher refuses it,
                earlier runs show that the metric is wrong, or they have other settings than the plan gives now.
        """
        created = self._create_folder()
        self._lock = lock(self.folder)
        try:
            self._read_earlier()  # another process may have gone on with it until now
            make_places(self.folder)
            self._check_earlier_runs()
            if not self.searcher.foresees:
                self._setup_searcher(self.folder)
        except ConfigError:
            if created:  # and locked: nobody else writes there
                shutil.rmtree(self.folder, ignore_errors=True)
            self.close()
            if created:
                with suppress(OSError):  # NFS keeps a folder with an open lock
                    self.folder.rmdir()
            raise
        except GivenUp:
            self._refuse_to_wait("it was setting up")
        write_plan(self.folder, self.plan)
        for trial in self.trials:
            if not self._ends:
                self._tell(trial)

    def _refuse_to_wait(self, what: str) -> None:
        """Note that the searcher was given up; the sweep is ending."""
        self.interrupted_by = (
            f"{self.interrupted_by}, while the searcher {self.plan.searcher.name} did not answer: {what}"
        )

    def _check_earlier_runs(self) -> None:
        for trial in self.trials:
            self._configure(trial)
        if self.count("waiting") or max(self.total_trials, self.plan.trials or 0) > len(self.trials):
            check_same_settings(self.trials, self.folder)
        for run in self.runs:
            self._watch_metric(run, run.follow())
        if self._refused is not None:
            raise self._refused

    def _create_folder(self) -> bool:
        """Create the folder; return False if it was there."""
        if self._folder is not None:
            return make_folder(self._folder)
        first, _ = self.plan.run_config(next(probes(self.plan.space)), self._assembly)
        self._folder = fresh_folder(first, self.plan.algorithm)
        return True

    def _setup_searcher(self, folder: Path) -> None:
        plan = self.plan
        begun = [Begun(each.point, each.parent, each.until) for each in self.trials]
        search = Search(plan.space, plan.seeds[0], plan.trials, not plan.minimize, folder, self.whole, begun)
        self.total_trials = self._guarded.setup(search)

    @functools.cached_property
    def whole(self) -> Whole | None:
        """How far its runs train, where that is the same for all; None: their end is open."""
        return whole_of(self.plan.run_config(next(probes(self.plan.space)), self._assembly)[0])

    @property
    def runs(self) -> list[SweepRun]:
        """All runs requested so far."""
        return [run for trial in self.trials for run in trial.runs]

    @property
    def total_runs(self) -> int:
        """The number of runs in the whole sweep."""
        return self.total_trials * len(self.plan.seeds)

    def count(self, *states: RunState) -> int:
        """Return the number of runs in the given states."""
        return sum(run.state in states for run in self.runs)

    def carry_out(self, pool: SweepPool, watch: Watch) -> None:
        """Execute missing runs until all are done or the sweep is interrupted; then running ones save themselves.

        They do so also where anything else ends the sweep, such as an error of the searcher or a full disk.

        Raises:
            ConfigError: the runs do not record the metric; those that were running have saved themselves.
        """
        running: dict[str, tuple[Trial, SweepRun]] = {}
        try:
            self._execute(pool, watch, running)
        except Exception:
            for name in running:
                pool.interrupt(name)
            while running:
                for end in pool.ended(_TICK):
                    trial, run = running.pop(end.name)
                    trial.end(run, end)
            raise
        if self._refused is not None:
            raise self._refused

    def _execute(self, pool: SweepPool, watch: Watch, running: dict[str, tuple[Trial, SweepRun]]) -> None:
        """Start runs and note their ends; `running` has those that are under way, by name."""
        waiting = self._waiting()
        while True:
            while len(running) < pool.size and not self._ends:
                found = next(waiting, None)
                if isinstance(found, Wait) and not running and not self._ends:
                    raise ConfigError(
                        f"the searcher {self.plan.searcher.name} waits for a value, and no trial is under way",
                        "searcher",
                        "It has been told all that there are. Its `ask` must return a point then.",
                    )
                if found is None or isinstance(found, Wait):
                    break
                self._start(*found, pool)
                running[found[1].name] = found
            if not running:
                break
            if self._ends:
                for name in running:
                    pool.interrupt(name)
            for end in pool.ended(_TICK):
                self._note(*running.pop(end.name), end)
                watch(self, end)
            for trial, run in list(running.values()):
                self._follow(trial, run, pool)
            watch(self, None)

    @property
    def _ends(self) -> bool:
        return self.interrupted_by is not None or self._refused is not None

    def interrupt(self, cause: str) -> None:
        """Ask the sweep to end: no more runs start, and running ones are asked to save themselves."""
        self.interrupted_by = cause
        self._guarded.give_up()

    def close(self) -> None:
        """Release the folder; safe to call twice."""
        release(self.searcher)
        if self._lock is not None:
            self._lock.close()

    def _waiting(self) -> Iterator[tuple[Trial, SweepRun] | Wait]:
        """Yield the runs to start, in order; points are requested only when needed. `Wait` where there is none yet."""
        number, told = 0, -1
        while number < self.total_trials or self.searcher.open_ended:
            if number == len(self.trials) and told == self._values_told:
                yield Wait()  # nothing is new: it is not asked again
                continue
            if number == len(self.trials) and not self._ask(number):
                if self._done:
                    return
                told = self._values_told
                continue
            trial = self.trials[number]
            for run in trial.runs:
                if run.state == "waiting":
                    yield from self._until_parent(trial, run)
                if run.state == "waiting":
                    yield trial, run
            number += 1

    def _until_parent(self, trial: Trial, run: SweepRun) -> Iterator[Wait]:
        """Yield `Wait` until the run that a run goes on from has ended; with new seeds it may be under way."""
        if trial.parent is None:
            return
        parent = next(each for each in self.trials[trial.parent].runs if each.seed == run.seed)
        while parent.state == "running":
            yield Wait()
        if parent.state != "finished" and not self._ends:
            run.state, run.reason = "failed", f"{parent.name}, from which it goes on, has not finished"
            self._tell(trial)

    def _ask(self, number: int) -> bool:
        """Ask for a point; return False if the searcher waits, has no more, or was given up."""
        try:
            point = self._guarded.ask(number)
            if isinstance(point, Done):
                self._done, self.total_trials = True, number
            if not isinstance(point, dict):
                return False
            parent = self._guarded.parent(number)
            until = self._guarded.until(number, None if parent is None else self.trials[parent].until)
        except GivenUp:
            self._refuse_to_wait(f"it was choosing the point of trial {number}")
            return False
        trial = new_trial(self.folder, number, point, self.plan, parent, until)
        self.trials.append(trial)
        self.total_trials = max(self.total_trials, len(self.trials))
        write_trials(self.folder, self.trials)
        self._configure(trial)
        self._tell(trial)
        return True

    def _configure(self, trial: Trial) -> None:
        """Assemble the configuration; a point that is not valid, or a run of another, fails only its own runs."""
        if all(run.state == "failed" for run in trial.runs):  # outside of the space
            return
        try:
            budget = setting(trial.until, self.whole)
            trial.config, trial.preset = self.plan.run_config(trial.point, self._assembly, budget)
        except ConfigError as error:
            for run in trial.runs:
                run.state, run.reason = "failed", " ".join(str(error).split())
        for run in trial.runs:
            if problem := holds_another(trial, run):
                run.state, run.reason = "failed", problem

    def _start(self, trial: Trial, run: SweepRun, pool: SweepPool) -> None:
        pool.start(job_of(trial, run, self.plan, self._classes))
        run.state = "running"

    def _note(self, trial: Trial, run: SweepRun, end: JobEnd) -> None:
        lines = run.follow()
        trial.end(run, end)
        self._watch_metric(run, lines)
        self._tell(trial)

    def _follow(self, trial: Trial, run: SweepRun, pool: SweepPool) -> None:
        """Read a run's new epochs; those of the trial's first seed may prune the trial."""
        lines = run.follow()
        self._watch_metric(run, lines)
        for epoch in lines:
            value = metric_named(epoch, self.plan.metric)
            if not self._prunes or trial.pruned or run is not trial.runs[0] or not isinstance(value, int | float):
                continue
            if self._is_pruned(trial, epoch["epoch"], value):
                mark_pruned(trial)
                write_trials(self.folder, self.trials)
        if trial.pruned:
            pool.interrupt(run.name)

    def _is_pruned(self, trial: Trial, epoch: int, value: float) -> bool:
        try:
            return self._guarded.prune(trial.number, epoch, value)
        except GivenUp:
            self._refuse_to_wait(f"it was judging trial {trial.number}")
            return False

    def _watch_metric(self, run: SweepRun, lines: list[dict[str, Any]]) -> None:
        """End the sweep if the metric turns out to be one that no run will record."""
        if self._refused is None and self._watched.is_wrong(lines, run) and not self.plan.late_metric:
            self._refused = unrecorded(self.plan.metric, self._watched.known, self.folder, early=True)

    def _tell(self, trial: Trial) -> None:
        """Tell the searcher once how a trial ended, unless it was only interrupted.

        A trial has failed for the searcher if any of its runs has no value.
        """
        states = {run.state for run in trial.runs}
        if trial.told or trial.pruned or not trial.ended or "interrupted" in states:
            return
        found = trial.spread(self.plan) if trial.complete(self.plan) else None
        trial.told = True
        self._values_told += 1
        try:
            self._guarded.tell(trial.number, trial.point, None if found is None else found.mean)
        except GivenUp:
            self._refuse_to_wait(f"it was taking the value of trial {trial.number}")
