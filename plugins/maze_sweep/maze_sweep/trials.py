"""The trials of a sweep and the states of their runs, read from the sweep's folder."""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from maze_compare.groups import Spread, flatten, spread
from maze_compare.records import RunRecord, read_run

from maze_core import ConfigError, RunConfig
from maze_core.base import files
from maze_core.base.plain_json import checksummed, is_count, is_number, parse_object, unsealed
from maze_core.base.terminal_text import shown
from maze_core.plugins.config.record import FORKED_FROM
from maze_core.run.saved.append_only import METRICS_FILE
from maze_core.run.saved.metrics_file import parsed_epoch
from maze_sweep.plan import SweepPlan
from maze_sweep.pool import JobEnd, SweepJob
from maze_sweep.searchers.space import Point, Space, other_paths, outside

TRIALS, RUNS, LOGS = "trials.json", "runs", "logs"
_TRIALS_BYTES = 100_000_000
_MOST_AT_ONCE = 64_000_000
"""Most bytes of a `metrics.jsonl` that are read at a time."""
_PRUNED = "its trial was pruned"

RunState = Literal["waiting", "running", "finished", "failed", "interrupted", "killed", "pruned"]
"""waiting: not started, or to be resumed; pruned: ended early by the searcher."""


@dataclass(slots=True)
class SweepRun:
    """One run of a sweep: a trial with one seed."""

    name: str
    """Such as `t003-s1`: the name of its folder below `runs` and of its log."""
    seed: int
    run_dir: Path
    log: Path
    state: RunState = "waiting"
    reason: str = ""
    """Why it ended, in one sentence."""
    epochs: list[dict[str, Any]] = field(default_factory=list)
    """The lines of its `metrics.jsonl` that `follow` has read."""
    _read: int = 0
    _record: RunRecord | None = None

    def follow(self) -> list[dict[str, Any]]:
        """Return epochs written since the last call; the run may still be writing."""
        last = self.epochs[-1]["epoch"] if self.epochs else 0
        try:
            with files.open_file(self.run_dir / METRICS_FILE, "rb", self.run_dir.parents[1]) as file:
                # A resumed run rewrites the file: the same lines, up to its checkpoint.
                file.seek(min(self._read, file.seek(0, os.SEEK_END)))
                self._read = file.tell()
                whole, newline, _torn = file.read(_MOST_AT_ONCE).rpartition(b"\n")
        except OSError:
            return []
        self._read += len(whole) + len(newline)
        lines = (whole + newline).splitlines(keepends=True)
        fresh = [each for each in map(parsed_epoch, lines) if each and each["epoch"] > last]
        self.epochs += fresh
        return fresh

    def count(self, name: str) -> float:
        """Return a counter of the newest epoch, such as `env_steps`; 0 without one."""
        found: float | None = self.epochs[-1].get(name) if self.epochs else None
        return found or 0

    def record(self) -> RunRecord | None:
        """Return the record in its folder; None without a complete one, or where the folder is a link."""
        if self._record is not None:
            return self._record
        if any(each.is_symlink() for each in (self.run_dir, self.run_dir.parent)):
            return None
        try:
            record = read_run(self.run_dir)
        except (ConfigError, OSError):
            return None
        if record.state == "finished":  # nothing about it will change
            self._record = record
        return record


@dataclass(slots=True)
class Trial:
    """A point of the space and its runs."""

    number: int
    point: Point
    config: RunConfig | None
    """The configuration of its runs, without a seed; None if the point is not valid."""
    preset: str
    runs: list[SweepRun]
    parent: int | None = None
    """The trial whose runs those of this one are forks of."""
    until: float | None = None
    """The budget at which its runs pause; None: they train to their end."""
    pruned: bool = False
    told: bool = False
    """True if the searcher was told its end."""

    @property
    def ended(self) -> bool:
        """True if none of its runs is waiting or running."""
        return all(run.state not in ("waiting", "running") for run in self.runs)

    def source(self, run: SweepRun) -> Path | None:
        """Return the folder of the run that one of its runs goes on from; None: there is no parent."""
        return None if self.parent is None else run.run_dir.with_name(_name(self.parent, run.seed))

    def config_of(self, run: SweepRun) -> dict[str, Any]:
        """Return the configuration of one of its runs; valid where that of the trial is."""
        if self.config is None:
            raise RuntimeError(f"trial {self.number} has no configuration")
        return {**self.config.model_dump(mode="json"), "seed": run.seed}

    def end(self, run: SweepRun, end: JobEnd) -> None:
        """Note how one of its runs ended; one that a callback stopped has finished."""
        run.state, run.reason = "finished" if end.outcome == "stopped" else end.outcome, end.reason
        if self.pruned and run.state == "interrupted":
            run.state, run.reason = "pruned", _PRUNED

    def values(self, plan: SweepPlan) -> list[float]:
        """Return the value of each finished run that has one."""
        found = [self.value(run, plan) for run in self.runs]
        return [value for value in found if value is not None]

    def value(self, run: SweepRun, plan: SweepPlan) -> float | None:
        """Return the value of one of its runs; None for one that has not finished, or has none."""
        record = run.record() if run.state == "finished" else None
        return None if record is None else self._value(record, plan)

    def _value(self, record: RunRecord, plan: SweepPlan) -> float | None:
        """Return the value of what a run has done since it began; a fork has the metrics of its parent, too.

        A run that has paused within its first epoch has only its final evaluation.
        """
        own = since_fork(record)
        found = own.value(plan.metric, plan.take, minimize=plan.minimize)
        return own.value(plan.metric, "last") if found is None and self.until is not None else found

    def complete(self, plan: SweepPlan) -> bool:
        """Return True if each of its runs has finished with a value; only such trials have a rank."""
        return len(self.values(plan)) == len(self.runs)

    def spread(self, plan: SweepPlan) -> Spread | None:
        """Return mean and deviation of the values that it has, even if some of its runs have none; None without any."""
        return spread(self.values(plan))


def since_fork(record: RunRecord) -> RunRecord:
    """Return the record of a run without the epochs that it has from the run that it is a fork of."""
    began = (record.facts.get(FORKED_FROM) or {}).get("epoch")
    if not is_count(began):
        return record
    return replace(record, epochs=tuple(each for each in record.epochs if (each.get("epoch") or 0) > began))


def new_trial(
    folder: Path, number: int, point: Point, plan: SweepPlan, parent: int | None = None, until: float | None = None
) -> Trial:
    """Return a trial with the states of its runs in the folder; its configuration is not set yet.

    The runs of a point outside of the plan's space have failed: nobody has looked at what they would do.
    """
    runs, problem = [], outside(point, plan.space)
    for seed in plan.seeds:
        name = _name(number, seed)
        run = SweepRun(name, seed, folder / RUNS / name, folder / LOGS / f"{name}.log")
        record = run.record()
        if problem:
            run.state, run.reason = "failed", problem
        elif record is not None and record.state == "finished":
            run.state, run.reason = "finished", record.reason
        runs.append(run)
    return Trial(number, point, None, "", runs, parent, until)


def _name(number: int, seed: int) -> str:
    return f"t{number:03}-s{seed}"


def job_of(trial: Trial, run: SweepRun, plan: SweepPlan, classes: tuple[str, ...]) -> SweepJob:
    """Return what a pool needs to carry out one of a trial's runs; `classes`: those that the user has named."""
    source = trial.source(run)
    return SweepJob(
        name=run.name,
        run_dir=str(run.run_dir),
        log=str(run.log),
        config=trial.config_of(run),
        preset=trial.preset or None,
        init_from=plan.init_from if source is None else None,
        fork_of=None if source is None else str(source),
        classes=classes,
        search_path=tuple(str(Path(folder).absolute()) for folder in sys.path),
    )


def mark_pruned(trial: Trial) -> None:
    """Mark the trial as pruned: its runs are not continued."""
    trial.pruned = True
    for run in trial.runs:
        if run.state == "waiting":
            run.state, run.reason = "pruned", _PRUNED


def holds_another(trial: Trial, run: SweepRun) -> str:
    """Return in one sentence how the run in a trial's folder differs in seed or point; empty if it is the trial's."""
    record = run.record()
    if record is None or trial.config is None:
        return ""
    ours, theirs = flatten(trial.config_of(run)), flatten(record.config)
    for path in ("seed", *trial.point):
        for each in ours.keys() & theirs.keys():  # parameters come and go with versions
            inside = f"{each}.".startswith(f"{path}.") or path.startswith(f"{each}.")
            if inside and ours[each] != theirs[each]:
                has = f"{run.run_dir} holds a run with {each} {shown(theirs[each])}, and this trial has"
                return f"{has} {shown(ours[each])}: move it elsewhere"
    return ""


def read_trials(folder: Path, plan: SweepPlan) -> list[Trial]:
    """Return the trials requested before the sweep was interrupted, in order.

    Raises:
        ConfigError: the file is damaged.
    """
    path = folder / TRIALS
    try:
        saved = unsealed(parse_object(files.read_bytes(path, _TRIALS_BYTES)))
        trials = []
        for number, each in enumerate(saved["trials"]):
            point, parent, until = _point(each, number, plan.space), _parent(each, number), _until(each, number)
            trial = new_trial(folder, number, point, plan, parent, until)
            if each.get("pruned"):
                mark_pruned(trial)
            trials.append(trial)
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError) as error:
        hint = "Delete it: a grid or a random search continues without it."
        raise ConfigError(f"{path} is damaged: {error}", hint=hint) from error
    return trials


def _point(saved: dict[str, Any], number: int, space: Space) -> Point:
    """Return the point of a saved trial, in a folder that may come from anyone."""
    point = saved["point"]
    if not isinstance(point, dict):
        raise ValueError(f"the point of trial {number} is {shown(point)}")
    if problem := other_paths(point, space):
        raise ValueError(f"trial {number} has {problem}")
    nested = {path: value for path, value in point.items() if isinstance(value, list | dict)}
    if problem := outside(nested, {path: space[path] for path in nested}):
        raise ValueError(f"in trial {number}, {problem}")
    return point


def _parent(saved: dict[str, Any], number: int) -> int | None:
    parent = saved.get("parent")
    if parent is not None and (type(parent) is not int or not 0 <= parent < number):
        raise ValueError(f"the parent of trial {number} is {shown(parent)}")
    return parent


def _until(saved: dict[str, Any], number: int) -> float | None:
    until = saved.get("until")
    if until is not None and not (is_number(until) and 0 < until < math.inf):
        raise ValueError(f"the budget of trial {number} is {shown(until)}")
    return until


def write_trials(folder: Path, trials: list[Trial]) -> None:
    """Save the requested points, and which of them were pruned."""
    saved = [
        {
            "point": each.point,
            **({} if each.parent is None else {"parent": each.parent}),
            **({} if each.until is None else {"until": each.until}),
            **({"pruned": True} if each.pruned else {}),
        }
        for each in trials
    ]
    files.write_bytes(folder / TRIALS, json.dumps(checksummed({"trials": saved}), indent=1).encode())
