"""What do the defaults reach? Trains without presets, beside Stable-Baselines3 with its own defaults, at equal steps.

    python benchmarks/defaults.py                           all rows, 3 seeds; makes .venv-bench for the peer first
    python benchmarks/defaults.py --only ppo-CartPole-v1 --seeds 1 --jobs 1
    python benchmarks/defaults.py --contender maze --again  measure Maze's runs once more, after a default changed

Every seed is one process. Its score is the deterministic evaluation of the parameters it ended with. Runs are merged
into docs/benchmarks/defaults.json one by one, and those that are there are not repeated: an interrupted measurement
goes on where it stopped.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import results
from command import MAZE, one_thread
from speed import HERE, prepare_venv
from statistics_of_runs import with_interval

PAGE = "defaults"
MAZE_NAME, CLASSIC, PEER = "maze", "maze classic", "stable-baselines3"
EPISODES = 20
SEEDS = 3
FIRST_EVALUATION_SEED = 1000


@dataclass(frozen=True)
class Task:
    """An environment, the steps to train on it, and for the identity environments the return that solves it."""

    env: str
    steps: int
    solved: float | None = None

    @property
    def title(self) -> str:
        return self.env.rpartition(":")[2]


TASKS = (
    Task("identity:IdentityDiscrete-v0", 20_000, solved=95),
    Task("identity:IdentityMultiDiscrete-v0", 20_000, solved=95),
    Task("identity:IdentityMultiBinary-v0", 20_000, solved=95),
    Task("identity:IdentityBox-v0", 20_000, solved=-10),
    Task("CartPole-v1", 50_000),
    Task("MountainCarContinuous-v0", 50_000),
    Task("Acrobot-v1", 100_000),
    Task("Pendulum-v1", 100_000),
    Task("HalfCheetah-v5", 100_000),
    Task("LunarLander-v3", 150_000),
    Task("LunarLanderContinuous-v3", 150_000),
    Task("Hopper-v5", 150_000),
)
ALGORITHMS = {
    "ppo": (MAZE_NAME, CLASSIC, PEER),
    "a2c": (MAZE_NAME, CLASSIC, PEER),
    "impala": (MAZE_NAME, CLASSIC),  # the peer has no IMPALA
}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    algorithm: str
    task: Task

    @property
    def name(self) -> str:
        return f"{self.algorithm}-{self.task.title}"


ROWS = tuple(Row(algorithm, task) for algorithm in ALGORITHMS for task in TASKS)


@dataclass(frozen=True)
class Trial:
    """One run to measure."""

    row: Row
    contender: str
    seed: int


INTRODUCTION = """
# Defaults

What someone gets who names an algorithm and an environment and nothing else: no preset, no parameter. Beside it stands
[Stable-Baselines3](https://github.com/DLR-RM/stable-baselines3) with its own defaults, at equal environment steps, and
the preset `classic`, which holds the parameters of the original Maze. Each framework takes the number of environments
that it takes by default: Maze eight, Stable-Baselines3 one.

Each score is the deterministic evaluation, over 20 episodes, of the parameters that a run ended with; shown is the mean
over the seeds with its 95 % confidence interval (Student's t). In the identity environments the observation is the
right action; they have 100 steps, and the best return is 100, or 0 for the Box. Solved is a return of 95, or -10 for
the Box.

Made by `python benchmarks/defaults.py`. The figures of every run are in `defaults.json`, with where and when it was
made; the list below names the last run of each row.
"""
HEADERS = ["row", "steps", "maze", "stable-baselines3", "classic", "maze beside its peer"]


def main() -> int:
    options = parse_options()
    rows = [row for row in ROWS if not options.only or row.name in options.only]
    contenders = options.contender or [MAZE_NAME, CLASSIC, PEER]
    wanted = [
        Trial(row, contender, seed)
        for seed in range(1, options.seeds + 1)
        for row in rows
        for contender in ALGORITHMS[row.algorithm]
        if contender in contenders
    ]
    trials = [trial for trial in wanted if options.again or not is_measured(trial)]
    peer_python = options.peer_python or (prepare_venv() if any(t.contender == PEER for t in trials) else None)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            for _ in pool.map(lambda trial: measure(trial, options.runs / stamp, peer_python), trials):
                pass
        except BaseException:
            # Ctrl-C: without this the pool would first train what waits.
            pool.shutdown(cancel_futures=True)
            raise
    found = results.load(PAGE)
    write_page(found)
    results.show("Defaults", HEADERS, cells_of(found))
    print("\n".join(verdicts(found)))
    return 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[row.name for row in ROWS], help="train this row only")
    parser.add_argument("--contender", action="append", choices=[MAZE_NAME, CLASSIC, PEER], help="train this one only")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs of each row and contender (default 3)")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (default 2)")
    parser.add_argument("--again", action="store_true", help="repeat runs that are measured already")
    parser.add_argument("--peer-python", type=Path, help="python of an environment that has the peer")
    parser.add_argument("--runs", type=Path, default=Path("runs/defaults"), help="where the run directories go")
    return parser.parse_args()


def measure(trial: Trial, folder: Path, peer_python: Path | None) -> None:
    """Train and evaluate in processes of their own, and record the result. One that fails says so and records none."""
    train = run_peer if trial.contender == PEER else run_maze
    place = folder / trial.row.name / f"{trial.contender.replace(' ', '-')}-s{trial.seed}"
    try:
        result = train(trial, place, peer_python)
    except subprocess.CalledProcessError as error:
        print(f"{error.cmd} failed:\n{error.stdout[-2000:]}\n{error.stderr[-2000:]}", flush=True)
        return
    record(trial, result)
    label = f"{trial.row.name}  {trial.contender}  seed {trial.seed}"
    print(f"{label}  {result['score']:.1f}  in {result['seconds']:.0f} s", flush=True)


def run_maze(trial: Trial, run_dir: Path, _: Path | None) -> dict[str, Any]:
    """`maze train` and `maze eval`, as a user would type them."""
    task, preset = trial.row.task, "classic" if trial.contender == CLASSIC else "none"
    command = [str(MAZE), "train", trial.row.algorithm, "--env", task.env, "--steps", str(task.steps), "--quiet"]
    output_of([*command, "--preset", preset, "--seed", str(trial.seed), "--run-dir", str(run_dir)])
    evaluation = ["--checkpoint", "last", "--episodes", str(EPISODES), "--seed", str(evaluation_seed(trial)), "--json"]
    found = json.loads(output_of([str(MAZE), "eval", str(run_dir), *evaluation]))
    summary = json.loads((run_dir / "run.json").read_text())["summary"]
    names = ("env_steps", "seconds", "outcome", "reason")
    return {"score": found["eval/return_mean"], **{name: summary[name] for name in names}}


def run_peer(trial: Trial, _: Path, python: Path | None) -> dict[str, Any]:
    settings = {
        "algorithm": trial.row.algorithm,
        "env": trial.row.task.env,
        "steps": trial.row.task.steps,
        "seed": trial.seed,
        "episodes": EPISODES,
        "evaluation_seed": evaluation_seed(trial),
    }
    printed = output_of([str(python), str(HERE / "peers" / "sb3_defaults.py"), json.dumps(settings)])
    result: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return result


def evaluation_seed(trial: Trial) -> int:
    return FIRST_EVALUATION_SEED + trial.seed


def output_of(command: list[str]) -> str:
    """What a command prints; both frameworks find the identity environments."""
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {**one_thread(), "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=True).stdout


def is_measured(trial: Trial) -> bool:
    row = results.load(PAGE).get(trial.row.name, {})
    return row.get("steps") == trial.row.task.steps and str(trial.seed) in row["runs"].get(trial.contender, {})


def record(trial: Trial, result: dict[str, Any]) -> None:
    """Merge one run into the file, which other processes may be doing too.

    Each run says where it was made: the runs of a row may be of several machines.
    """
    task, here = trial.row.task, {"where": results.machine(), "when": results.now()}
    with locked():
        row = results.load(PAGE).get(trial.row.name, {})
        runs = row["runs"] if row.get("steps") == task.steps else {}
        runs.setdefault(trial.contender, {})[str(trial.seed)] = {**result, **here}
        rows = results.merge(PAGE, trial.row.name, {"steps": task.steps, "solved": task.solved, "runs": runs})
        write_page(rows)


@contextmanager
def locked() -> Iterator[None]:
    """One process at a time."""
    folder = os.open(results.FOLDER, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def scores(result: dict[str, Any], contender: str) -> list[float]:
    """The scores of a contender by seed."""
    runs = result["runs"].get(contender, {})
    return [runs[seed]["score"] for seed in sorted(runs, key=int)]


def verdict(result: dict[str, Any]) -> str:
    """How Maze stands: `at least` or `below` its peer, and where there is such a thing, whether it is solved."""
    ours, theirs = scores(result, MAZE_NAME), scores(result, PEER)
    words = []
    if ours and theirs:
        words.append("at least" if statistics.fmean(ours) >= statistics.fmean(theirs) else "below")
    if ours and result["solved"] is not None:
        words.append("solved" if statistics.fmean(ours) >= result["solved"] else "not solved")
    return ", ".join(words) or "-"


def verdicts(rows: dict[str, Any]) -> list[str]:
    """For each algorithm with a peer: on how many environments it is at least as good."""
    lines = []
    for algorithm in (name for name, contenders in ALGORITHMS.items() if PEER in contenders):
        found = [verdict(rows[row.name]) for row in ROWS if row.algorithm == algorithm and row.name in rows]
        found = [each for each in found if each.startswith(("at least", "below"))]
        good = sum(each.startswith("at least") for each in found)
        lines.append(f"{algorithm}: at least its peer on {good} of {len(found)} environments")
    return lines


def write_page(rows: dict[str, Any]) -> None:
    summary = "".join(f"\n- {line}" for line in [*verdicts(rows), completeness(rows)])
    results.write_page(PAGE, f"{INTRODUCTION.strip()}\n{summary}", HEADERS, cells_of(rows), rows)


def completeness(rows: dict[str, Any]) -> str:
    """How much of the table is measured; a mean of one seed stands without an interval."""
    done = sum(min(len(runs), SEEDS) for result in rows.values() for runs in result["runs"].values())
    wanted = SEEDS * sum(len(ALGORITHMS[row.algorithm]) for row in ROWS)
    more = "more where three cannot tell them apart"
    return f"measured: {done} of {wanted} runs, {SEEDS} for each row and contender; {more}"


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table of all rows measured so far, in the order of ROWS."""
    return [line_of(row.name, rows[row.name]) for row in ROWS if row.name in rows]


def line_of(name: str, result: dict[str, Any]) -> list[str]:
    shown = [with_interval(scores(result, contender)) for contender in (MAZE_NAME, PEER, CLASSIC)]
    return [name, f"{result['steps']:,}", *shown, verdict(result)]


if __name__ == "__main__":
    sys.exit(main())
