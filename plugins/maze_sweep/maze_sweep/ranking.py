"""The results of a sweep: its trials from best to worst, and its failures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from maze_compare.groups import MISSING, short, text
from maze_compare.records import RETURN

from maze_sweep.sweep import Sweep
from maze_sweep.trials import RunState, SweepRun, Trial

FAILED: tuple[RunState, ...] = ("failed", "killed")


def ranked(sweep: Sweep) -> list[Trial]:
    """Return trials with a value from best to worst, then the others in order."""
    sign = 1 if sweep.plan.minimize else -1

    def place(trial: Trial) -> float:
        found = trial.spread(sweep.plan)
        return math.inf if found is None else sign * found.mean

    return sorted(sweep.trials, key=place)


def failures(sweep: Sweep) -> list[SweepRun]:
    """Return the failed runs in order."""
    return [run for run in sweep.runs if run.state in FAILED]


def table(sweep: Sweep, trials: Sequence[Trial]) -> tuple[list[str], list[list[str]]]:
    """Return headers and rows, one row per trial."""
    plan = sweep.plan
    headers = ["rank", "trial", *map(short, plan.over), f"{plan.take} {title(plan.metric)}", "runs"]
    return headers, [_row(sweep, trial, rank) for rank, trial in enumerate(trials, 1)]


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


def _row(sweep: Sweep, trial: Trial, rank: int) -> list[str]:
    found = trial.spread(sweep.plan)
    finished = sum(run.state == "finished" for run in trial.runs)
    state = f"{finished}/{len(trial.runs)}"
    others = sorted({run.state for run in trial.runs} - {"finished", "waiting"})
    return [
        MISSING if found is None else str(rank),
        f"t{trial.number:03}",
        *map(brief, trial.point.values()),
        MISSING if found is None else str(found),
        " ".join([state, *others]),
    ]


def _trial_facts(sweep: Sweep, trial: Trial) -> dict[str, Any]:
    found = trial.spread(sweep.plan)
    return {
        "trial": trial.number,
        "point": trial.point,
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
