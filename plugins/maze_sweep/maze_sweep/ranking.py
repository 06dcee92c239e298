"""The results of a sweep: its trials from best to worst, and its failures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maze_compare.groups import MISSING, short, text

from maze_core.base.metrics import RETURN
from maze_core.base.terminal_text import counted
from maze_core.plugins.extensions import NOTEBOOK, extension
from maze_sweep.metric import final_metrics, unrecorded
from maze_sweep.plan import SweepPlan
from maze_sweep.sweep import Sweep
from maze_sweep.trials import RunState, SweepRun, Trial

if TYPE_CHECKING:
    from pandas import DataFrame

FAILED: tuple[RunState, ...] = ("failed", "killed")
_NAME_A_TASK = ("env", "env.id", "env.factory")
"""Paths whose values are other environments, not other settings of one."""


def ranked(sweep: Sweep) -> list[Trial]:
    """Return the trials from best to worst; of equal ones, those that have trained further come first.

    A trial of which fewer runs have finished with a value comes after those with more, whatever its values: the runs
    that are left say nothing about those that failed. Several environments are ranked one after the other.
    """
    sign = 1 if sweep.plan.minimize else -1
    tasks = _tasks(sweep)

    def place(trial: Trial) -> tuple[int, int, float, float]:
        found, until, task = trial.spread(sweep.plan), -(trial.until or 0.0), tasks.index(_task(trial))
        return (task, 0, math.inf, until) if found is None else (task, -found.count, sign * found.mean, until)

    return sorted(sweep.trials, key=place)


def several_tasks(plan: SweepPlan) -> bool:
    """Return True if a sweep is over environments, whose scores have no common scale."""
    return any(path in plan.space for path in _NAME_A_TASK)


def _tasks(sweep: Sweep) -> list[str]:
    """Return the environments that are ranked one after the other, in the order of the trials."""
    return list(dict.fromkeys(map(_task, sweep.trials)))


def _task(trial: Trial) -> str:
    """Return the environment of a trial as text; empty if only one is tried."""
    return str([trial.point[path] for path in _NAME_A_TASK if path in trial.point] or "")


def failures(sweep: Sweep) -> list[SweepRun]:
    """Return the failed runs in order."""
    return [run for run in sweep.runs if run.state in FAILED]


def check_ranked(sweep: Sweep, *, rank: bool = False) -> None:
    """Raise ConfigError if runs have finished and none has a value of the metric; `rank`: of a sweep only looked at."""
    if sweep.count("finished") and not any(trial.values(sweep.plan) for trial in sweep.trials):
        finished = [run for run in sweep.runs if run.state == "finished"]
        lines = (line for run in finished if (record := run.record()) is not None for line in record.epochs)
        known: set[str] = set().union(*lines, *map(final_metrics, finished))
        raise unrecorded(sweep.plan.metric, known, sweep.folder, rank=rank)


def table(sweep: Sweep, trials: Sequence[Trial]) -> tuple[list[str], list[list[str]]]:
    """Return headers and rows, one row per trial; those that are not complete have no rank."""
    plan, lines = sweep.plan, has_lines(sweep)
    line = ["after", unit_of(sweep)] if lines else []
    headers = ["rank", "trial", *line, *map(short, plan.over), f"{plan.take} {title(plan.metric)}", "runs"]
    ranks: Counter[str] = Counter()
    rows = []
    for trial in trials:
        ranks[_task(trial)] += 1
        rows.append(_row(sweep, trial, ranks[_task(trial)], lines))
    return headers, rows


def has_lines(sweep: Sweep) -> bool:
    """Return True if trials have budgets, or go on from others."""
    return any(trial.until is not None or trial.parent is not None for trial in sweep.trials)


def unit_of(sweep: Sweep) -> str:
    """Return what budgets count."""
    return "steps" if sweep.whole is None else sweep.whole.unit


def title(metric: str) -> str:
    """Return a metric's title in tables."""
    return "return" if metric == RETURN else metric


def brief(value: Any) -> str:
    """Return a point's value as text, numbers with five digits; `trials.json` and the runs have full precision."""
    return f"{value:.5g}" if isinstance(value, float) else text(value)


def facts(sweep: Sweep) -> dict[str, Any]:
    """Return all results as plain data, the best trial first."""
    plan = sweep.plan
    return {
        "dir": str(sweep.folder),
        "metric": plan.metric,
        "take": plan.take,
        "minimize": plan.minimize,
        "interrupted": sweep.interrupted_by is not None,
        "runs": {"total": sweep.total_runs, "finished": sweep.count("finished"), "failed": sweep.count(*FAILED)},
        "trials": [_trial_facts(sweep, trial) for trial in ranked(sweep)],
    }


def to_frame(sweep: Sweep) -> DataFrame:
    """Return the runs as a data frame of pandas: what its trial tried, seed, state and value of each."""
    plan = sweep.plan
    rows = [
        {
            "trial": trial.number,
            **trial.point,
            "seed": run.seed,
            "state": run.state,
            plan.metric: trial.value(run, plan),
            "run_dir": str(run.run_dir),
        }
        for trial in sweep.trials
        for run in trial.runs
    ]
    return extension(NOTEBOOK, "frame", "a data frame", "maze-notebook")(rows)


def _row(sweep: Sweep, trial: Trial, rank: int, lines: bool) -> list[str]:
    found = trial.spread(sweep.plan)
    finished = sum(run.state == "finished" for run in trial.runs)
    state = f"{finished}/{len(trial.runs)}"
    others = sorted({run.state for run in trial.runs} - {"finished", "waiting"})
    complete = trial.complete(sweep.plan)
    part = "" if found is None or complete else f" ({found.count} of {counted(len(trial.runs), 'seed')})"
    after = MISSING if trial.parent is None else f"t{trial.parent:03}"
    line = [after, MISSING if trial.until is None else f"{trial.until:,.10g}"] if lines else []
    return [
        str(rank) if complete else MISSING,
        f"t{trial.number:03}",
        *line,
        *map(brief, trial.point.values()),
        MISSING if found is None else f"{found}{part}",
        " ".join([state, *others]),
    ]


def _trial_facts(sweep: Sweep, trial: Trial) -> dict[str, Any]:
    found = trial.spread(sweep.plan)
    return {
        "trial": trial.number,
        "point": trial.point,
        "parent": trial.parent,
        "until": trial.until,
        "complete": trial.complete(sweep.plan),
        "seeds": 0 if found is None else found.count,
        "mean": None if found is None else found.mean,
        "std": None if found is None else found.std,
        "runs": [
            {
                "run": run.name,
                "seed": run.seed,
                "state": run.state,
                "reason": run.reason,
                "run_dir": str(run.run_dir),
                "log": str(run.log),
            }
            for run in trial.runs
        ],
    }
