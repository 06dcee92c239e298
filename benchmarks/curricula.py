"""Do teachers help? Trains PPO with teachers and with uniform parameters, and tests it on the hardest ones.

    python benchmarks/curricula.py                           both tasks, all teachers, 3 seeds
    python benchmarks/curricula.py --task swing --seeds 1

A score is the mean return of 100 episodes with the hardest parameters and the policy that a run ended with: no best
checkpoint, no maximum over the training. All have equally many steps. A finished seed is written to
docs/benchmarks/curricula.json at once, and is not trained again, so a table can be continued where it stopped.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import results
from command import maze
from statistics_of_runs import with_interval

PAGE, EPISODES, SEEDS = "curricula", 100, 3
HEADERS = ["task", "teacher", "steps", "hardest", "mean return there (95 % CI)", "scores by seed", "seconds"]


@dataclass(frozen=True)
class Task:
    """An environment with parameters from easy to hard."""

    env: tuple[str, ...]
    """Arguments of `maze train`; the environment is built with the hardest parameters."""
    steps: int
    hardest: dict[str, float]
    teachers: dict[str, tuple[str, str]]
    """Each with its parameters, and with the ranges that it has."""


MASSES, SIZES = "{m: [0.2, 1.6]}", "{size: [5, 8]}"
DOORS = "minigrid:MiniGrid-DoorKey-5x5-v0"
TASKS = {
    "swing": Task(
        ("--env", "swing:Swing", "--set", "env.max_episode_steps=200", "--num-envs", "16", "--epoch-length", "1"),
        120_000,
        {"m": 1.6},
        {
            "uniform": ("{name: uniform}", MASSES),
            "adr": ("{name: adr, metric: return, low: 30, high: 80, step: 0.15, episodes: 4}", MASSES),
            "alp_gmm": ("{name: alp_gmm, every: 50}", MASSES),
        },
    ),
    "door key": Task(
        (
            *("--env", DOORS, "--wrappers", "drop,flatten", "--set", "wrappers.0.keys=[mission]"),
            *("--set", "env.kwargs.size=8", "--num-envs", "16", "--epoch-length", "1", "--entropy-coef", "0.01"),
        ),
        110_000,
        {"size": 8},
        {
            "uniform": ("{name: uniform}", SIZES),
            "success": ("{name: success, metric: return, threshold: 0.1, step: 0.25, episodes: 40}", SIZES),
            "plr": ("{name: plr}", "{size: [5, 8], seed: [0, 9999]}"),
        },
    ),
}
INTRODUCTION = f"""
# Curricula

PPO with [teachers](../guide/curricula.md) that choose the parameters of the next episodes, and with uniform ones. All
have equally many steps. `swing` is a pendulum whose mass is from 0.2 to 1.6, and which earns a reward of 1 in each step
near the top: the torque lifts a light one at once, a heavy one has to swing. `door key` is MiniGrid's DoorKey on
grids of 5 to 8 cells: a return above 0 means that the key was found, the door opened and the goal reached.

Scores are mean returns of {EPISODES} episodes of the stochastic policy with the hardest parameters alone, with
the parameters a run ended with: no best checkpoint, no maximum over the training. Beside the mean over the seeds is
its 95 % confidence interval (Student's t).

Made by `python benchmarks/curricula.py`; the figures of every run are in `curricula.json`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"seeds of each teacher (default {SEEDS})")
    parser.add_argument("--task", choices=sorted(TASKS), action="append", help="only this one; repeatable")
    parser.add_argument("--runs", type=Path, default=Path("runs/curricula"), help="where runs go")
    options = parser.parse_args()
    for name in options.task or TASKS:
        known = results.load(PAGE).get(name) or {"runs": {}}
        for runs, teacher, seed in results.missing(known, TASKS[name].teachers, options.seeds):
            runs[str(seed)] = train(name, teacher, seed, options.runs / name.replace(" ", "-"))
            rows = results.merge(PAGE, name, known)
            results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)
    results.show("Curricula", HEADERS, cells_of(results.load(PAGE)))
    return 0


def train(name: str, teacher: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train one seed and test it."""
    task, run_dir = TASKS[name], folder / teacher / f"s{seed}"
    shutil.rmtree(run_dir, ignore_errors=True)  # of a benchmark that was interrupted
    its, ranges = (f"callbacks.curriculum.{key}={value}" for key, value in zip(
        ("teacher", "parameters"), task.teachers[teacher], strict=True
    ))  # fmt: skip
    settings = ("--callback", "curriculum", "--set", its, "--set", ranges, "--set", "evaluation.n_episodes=0")
    length = ("--steps", str(task.steps), "--seed", str(seed), "--run-dir", str(run_dir), "-q")
    maze("train", "ppo", *task.env, *settings, *length)
    summary = json.loads((run_dir / "run.json").read_text())["summary"]
    hardest = ", ".join(f"{key}: {value}" for key, value in task.hardest.items())
    testing = ("--checkpoint", "last", "--stochastic", "--episodes", str(EPISODES), "--seed", "1000", "--json")
    tested = json.loads(maze("eval", str(run_dir), *testing, "--set", f"evaluation.parameters=[{{{hardest}}}]"))
    score = float(tested["eval/return_mean"])
    print(f"{name}  {teacher}  seed {seed}  {score:.3f}  in {summary['seconds']:.0f} s", flush=True)
    return {"score": score, "steps": summary["env_steps"], "seconds": summary["seconds"]}


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table: a line for each teacher of each task."""
    return [
        [
            name,
            teacher,
            f"{next(iter(runs.values()))['steps']:,}",
            ", ".join(f"{key} = {value}" for key, value in TASKS[name].hardest.items()),
            with_interval([run["score"] for run in runs.values()]),
            ", ".join(f"{run['score']:.2f}" for run in runs.values()),
            f"{statistics.fmean(run['seconds'] for run in runs.values()):.0f}",
        ]
        for name, result in rows.items()
        for teacher, runs in result["runs"].items()
    ]


if __name__ == "__main__":
    sys.exit(main())
