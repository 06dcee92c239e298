"""Five algorithms on six tasks with five seeds: trains what is missing, and makes the report of `maze report`.

    python benchmarks/five_algorithms.py          # trains, then writes the report
    python benchmarks/five_algorithms.py report   # writes the report of the runs that are there

Type it in the folder of the repository. Every algorithm has its default settings on all tasks: no preset, nothing
tuned. A training that was killed continues where it stopped. The report goes to docs/benchmarks, with the runs as CSV
beside it.
"""

from __future__ import annotations

import argparse
import subprocess
from itertools import combinations
from pathlib import Path

import results
from command import MAZE, maze, one_thread

ROOT = Path(__file__).parents[1]
RUNS = Path("runs") / "five_algorithms"
SCALE = results.FOLDER / "five_algorithms.yaml"
REPORT, CSV = results.FOLDER / "five_algorithms.html", results.FOLDER / "five_algorithms.csv"
TITLE = "Algorithms with their default settings after 20,480 steps"
STEPS, SEEDS = 20_480, 5

ALGORITHMS = {"ppo": 1, "a2c": 64, "pqn": 2, "trpo": 1, "dqn": 512}
"""The updates of an epoch, so that each has ten: a curve needs several evaluations."""
_BINS = "--wrappers discretize_actions --set wrappers.0.bins=9 --set wrappers.0.space=discrete"
TASKS = {
    "classic": "--env CartPole-v1 --env Acrobot-v1",
    "pendulum": f"--env Pendulum-v1 {_BINS}",
    "shop": f"--env maze_devkit.inventory:Inventory {_BINS}",
    "lake": "--env FrozenLake-v1 --wrappers one_hot",
    "grid": "--env minigrid:MiniGrid-Empty-5x5-v0 --wrappers select,flatten --set wrappers.0.keys=[image]",
}
"""By the name of a folder: options of `maze sweep`. Actions of Pendulum and of the shop are nine numbers."""


def main() -> None:
    """Train, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("all", "report"), default="all")
    parser.add_argument("--only", action="append", choices=list(ALGORITHMS), help="train this one alone; repeatable")
    parser.add_argument("--jobs", type=int, default=1, help="runs in parallel")
    options = parser.parse_args()
    if options.what == "all":
        for algorithm in options.only or ALGORITHMS:
            for name in TASKS:
                train(algorithm, name, options.jobs)
    if not options.only:
        report()


def train(algorithm: str, name: str, jobs: int) -> None:
    """Train an algorithm on some tasks with all seeds, or what of it is missing."""
    folder = RUNS / f"{algorithm}-{name}"
    if (folder / "done").exists():
        return
    typed = f"sweep {algorithm} {TASKS[name]} --preset none --seeds {SEEDS} --steps {STEPS}".split()
    typed += ["--set", f"algorithm.epoch_length={ALGORITHMS[algorithm]}", "--jobs", str(jobs), "--dir", str(folder)]
    print(f"maze {' '.join(typed)}", flush=True)
    subprocess.run([str(MAZE), *typed], check=True, env=one_thread())
    (folder / "done").touch()


def report() -> None:
    """Write the report and the CSV of the most runs in which all algorithms have the same tasks."""
    algorithms, tasks = whole({each: [name for name in TASKS if trained(each, name)] for each in ALGORITHMS})
    if len(algorithms) < len(ALGORITHMS) or len(tasks) < len(TASKS):
        print(f"not all are trained: the report is that of {', '.join(algorithms)} on {', '.join(tasks)}")
    scaled = [*(str(RUNS / f"{each}-{name}") for each in algorithms for name in tasks)]
    scaled += ["--normalize", str(SCALE.relative_to(ROOT))]
    print(maze("runs", "aggregate", *scaled, "--export", str(CSV)))
    print(maze("report", *scaled, "--title", TITLE, "--out", str(REPORT)))


def trained(algorithm: str, name: str) -> bool:
    """Return True if an algorithm has all its runs on some tasks."""
    return (RUNS / f"{algorithm}-{name}" / "done").exists()


def whole(done: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    """Return the algorithms, and the tasks that they all have, of which there are the most runs."""
    found: tuple[list[str], list[str]] = ([], [])
    for count in range(1, len(done) + 1):
        for algorithms in combinations(done, count):
            tasks = [name for name in TASKS if all(name in done[each] for each in algorithms)]
            if count * len(tasks) >= len(found[0]) * len(found[1]):
                found = list(algorithms), tasks
    return found


if __name__ == "__main__":
    main()
