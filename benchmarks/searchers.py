"""Do searchers that fork find more than random search with the same steps? Sweeps of `asha`, `pbt` and `random`.

    python benchmarks/searchers.py                         four tasks, five seeds
    python benchmarks/searchers.py --tasks ppo-CartPole-v1 --seeds 1

On each task the searchers draw the same settings from the same ranges, one run at a time. `asha` begins 18 points and
compares them after 1/9 and 1/3 of the steps; `pbt` trains 4 members in 6 stretches. `random` gets as many whole runs as
their steps make, rounded up, so never fewer steps. The score of a sweep is the mean return of 100 fresh episodes of the
best checkpoint of the trial that it ranks first. The gate: against random search the probability of improvement over
the seeds is 0.75 or more on three of four tasks.

A finished seed is written to docs/benchmarks/searchers.json at once, and is not trained again.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import results
from command import maze
from maze_statistics import probability_of_improvement
from maze_sweep.api import run_sweep
from maze_sweep.ranking import ranked
from maze_sweep.sweep import Sweep
from maze_sweep.trials import Trial

PAGE, SEEDS, GATE, NEEDED = "searchers", 5, 0.75, 3
SEARCHERS: dict[str, dict[str, Any]] = {
    "asha": {"searcher": {"name": "asha", "rungs": 3}, "trials": 18},
    "pbt": {"searcher": {"name": "pbt", "population": 4, "generations": 6}},
}


@dataclass(frozen=True)
class Task:
    """What is learned, for how long, and what is searched."""

    algorithm: str
    env: str
    steps: int
    over: dict[str, str]
    overrides: dict[str, Any] = field(default_factory=dict)


_LR, _GAMMA = {"algorithm.lr": "1e-5..1e-1:log"}, {"algorithm.gamma": "0.8..0.999"}
_ENTROPY = {"algorithm.entropy_coef": "1e-5..1e-1:log"}
_SMALL_UPDATES = {"algorithm.n_rollout_steps": 32, "algorithm.num_envs": 8, "algorithm.epoch_length": 8}
"""Of 256 steps each: a budget is at most one update longer than planned."""
TASKS = {
    "ppo-CartPole-v1": Task("ppo", "CartPole-v1", 5_400, _LR | _GAMMA | _ENTROPY, _SMALL_UPDATES),
    "ppo-Acrobot-v1": Task("ppo", "Acrobot-v1", 10_800, _LR | _GAMMA | _ENTROPY, _SMALL_UPDATES),
    "ppo-Pendulum-v1": Task("ppo", "Pendulum-v1", 18_000, _LR | _GAMMA | _ENTROPY, _SMALL_UPDATES),
    "dqn-CartPole-v1": Task("dqn", "CartPole-v1", 5_400, _LR | _GAMMA),
}
HEADERS = ["task", "searcher", "steps", "mean return", "random, same steps", "probability of improvement", "gate"]
INTRODUCTION = """
# Searchers that fork

[Searchers that fork](../guide/sweeps.md#searchers-that-fork) beside `random` at equal steps. Learning rate, discount
and entropy coefficient (of PPO) are drawn from wide ranges. `asha` begins 18 points and compares them after 1/9 and 1/3
of a run's steps; `pbt` trains 4 members in 6 stretches. `random` gets as many whole runs as their steps make, rounded
up. The score of a sweep is the mean return of 100 fresh episodes of the best checkpoint of the trial it ranks first.
The probability of improvement is the share of pairs of sweeps, one of each searcher, of which the first has the better
score, a tie counting half (Agarwal et al. 2021). The gate: 0.75 on three of four tasks.

Made by `python benchmarks/searchers.py`; the scores of every seed are in `searchers.json`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS), help="which tasks")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"seeds of each sweep (default {SEEDS})")
    parser.add_argument("--runs", type=Path, default=Path("runs/searchers"), help="where the sweeps go")
    options = parser.parse_args()
    for seed in range(1, options.seeds + 1):
        for name in options.tasks:
            known = results.load(PAGE).get(name) or {"seeds": {}}
            if str(seed) not in known["seeds"]:
                known["seeds"][str(seed)] = measure(TASKS[name], seed, options.runs / name / f"s{seed}")
                rows = results.merge(PAGE, name, known)
                results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)
                print(f"{name}  seed {seed}  {known['seeds'][str(seed)]}", flush=True)
    results.show("Searchers that fork", HEADERS, cells_of(results.load(PAGE)))
    return 0


def measure(task: Task, seed: int, folder: Path) -> dict[str, Any]:
    """Carry out the sweeps of one seed; return the score and the steps of each searcher, and random's for each."""
    found: dict[str, Any] = {}
    for name, more in SEARCHERS.items():
        sweep = carried_out(task, seed, folder / name, more)
        found[name] = {
            "score": score(ranked(sweep)[0]),
            "steps": sum(own_steps(trial, sweep) for trial in sweep.trials),
        }
    whole = {name: math.ceil(found[name]["steps"] / task.steps) for name in SEARCHERS}
    sweep = carried_out(task, seed, folder / "random", {"searcher": "random", "trials": max(whole.values())})
    for name, count in whole.items():
        best = next(trial for trial in ranked(sweep) if trial.number < count)
        found[name] |= {"random": score(best), "random_runs": count}
    shutil.rmtree(folder)
    return found


def carried_out(task: Task, seed: int, folder: Path, more: dict[str, Any]) -> Sweep:
    """Return a finished sweep; one that was interrupted goes on."""
    overrides = {"steps": task.steps, "callbacks.tensorboard": None, **task.overrides}
    plan = {"algorithm": task.algorithm, "env": task.env, "preset": "none", "over": task.over, "overrides": overrides}
    return run_sweep({**plan, "seeds": [seed], **more}, folder, jobs=1)


def own_steps(trial: Trial, sweep: Sweep) -> int:
    """The steps that a trial took itself."""
    ends = [_steps(each) for each in (trial, None if trial.parent is None else sweep.trials[trial.parent])]
    return ends[0] - ends[1]


def _steps(trial: Trial | None) -> int:
    record = None if trial is None else trial.runs[0].record()
    return 0 if record is None else int(record.count("env_steps"))


def score(trial: Trial) -> float:
    """The mean return of fresh episodes of a trial's best checkpoint."""
    playing = ["--episodes", "100", "--seed", "1000", "--json"]
    return float(json.loads(maze("eval", str(trial.runs[0].run_dir), *playing))["eval/return_mean"])


def improvement(row: dict[str, Any], name: str) -> float:
    """How often a sweep of this searcher is better than one of random search."""
    ours, theirs = ([each[name][key] for each in row["seeds"].values()] for key in ("score", "random"))
    return float(probability_of_improvement([np.array(ours)], [np.array(theirs)]))


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table: a line for each searcher of each task."""
    cells = []
    for task, row in rows.items():
        for name in SEARCHERS:
            seeds = [each[name] for each in row["seeds"].values()]
            means = [f"{np.mean([each[key] for each in seeds]):,.1f}" for key in ("score", "random")]
            share = improvement(row, name)
            open_ = f", open: {len(seeds)} of {SEEDS} seeds" if len(seeds) < SEEDS else ""
            verdict = ("met" if share >= GATE else "missed") + open_
            steps = f"{np.mean([each['steps'] for each in seeds]):,.0f}"
            cells.append([task, name, steps, *means, f"{share:.2f}", verdict])
    return cells


if __name__ == "__main__":
    sys.exit(main())
