"""Do offline algorithms improve on their data? Records half-trained SAC, and learns from it with several seeds.

    python benchmarks/offline.py                            all environments and algorithms
    python benchmarks/offline.py --only Pendulum-v1 --seeds 2

A score is the mean return of deterministic episodes with the parameters a run ended with: no best checkpoint, no
maximum over the training. The gate: TD3+BC and IQL are better than the data and than BC. A finished seed is written
to docs/benchmarks/offline.json at once, and is not trained again, so a table can be continued where it stopped.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import results
from command import maze
from statistics_of_runs import with_interval

PAGE = "offline"
ALGORITHMS = ("bc", "td3_bc", "iql")
HEADERS = [
    "environment",
    "algorithm",
    "updates",
    "the data",
    "mean return (95 % CI)",
    "gate",
    "scores by seed",
    "seconds",
]
INTRODUCTION = """
# Offline learning

SAC trains for a short time; its sampled actions are recorded, and each algorithm learns from the
recording alone, with its defaults. Scores are mean returns of 20 deterministic episodes with the parameters a run ended
with: no best checkpoint, no maximum over the training. The gate is that the mean over the seeds, shown with its 95 %
confidence interval (Student's t), is above the mean return of the data and above BC's. Seconds are those of training
and evaluation.

Made by `python benchmarks/offline.py`; the figures of every run are in `offline.json`.
"""


@dataclass(frozen=True)
class Data:
    """A recording of a half-trained policy."""

    env: str
    trained: int
    """Environment steps of SAC."""
    episodes: int
    """Episodes recorded."""
    updates: int
    """Updates of TD3+BC and IQL; BC has its default number of passes."""
    seeds: int
    teacher: str = ""
    """SAC's options, where its preset for the environment learns too fast to stop it halfway."""


DATA = (
    Data(
        "Pendulum-v1",
        trained=2_600,
        episodes=20,
        updates=10_000,
        seeds=5,
        teacher="--preset none --batch-size 256 --initial-buffer-size 100 --entropy-coef-lr 0.001 --epoch-length 500",
    ),
    Data("HalfCheetah-v5", trained=20_000, episodes=20, updates=20_000, seeds=3, teacher="--preset paper"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[data.env for data in DATA], help="this environment only")
    parser.add_argument("--seeds", type=int, help="runs of each algorithm, with seeds 1, 2, … (default: all)")
    parser.add_argument("--runs", type=Path, default=Path("runs/offline"), help="where recordings and runs go")
    options = parser.parse_args()
    for data in DATA:
        if not options.only or data.env in options.only:
            measure(data, options.seeds or data.seeds, options.runs / data.env)
    rows = results.load(PAGE)
    results.show("Offline learning", HEADERS, cells_of(rows))
    return 0 if all(passes(rows[env], name) for env in rows for name in ALGORITHMS[1:]) else 1


def measure(data: Data, seeds: int, folder: Path) -> None:
    """Train what is missing of one environment."""
    known = results.load(PAGE).get(data.env, {})
    facts = asdict(data)
    if {name: known.get(name) for name in facts} != facts:
        known = {**facts, "data_return": record(data, folder / "sac", folder / "recording"), "runs": {}}
    for runs, algorithm, seed in results.missing(known, ALGORITHMS, seeds):
        if not (folder / "recording").exists():
            record(data, folder / "sac", folder / "recording")
        runs[str(seed)] = train(data, algorithm, seed, folder)
        rows = results.merge(PAGE, data.env, known)
        results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)


def record(data: Data, teacher: Path, recording: Path) -> float:
    """Train SAC for a while, record its sampled actions, and return their mean return.

    `teacher`, `recording`: the folders of both; a teacher that is there is trained anew.
    """
    shutil.rmtree(teacher, ignore_errors=True)  # of a benchmark that was interrupted
    options = ["--seed", "1", "--steps", str(data.trained), *data.teacher.split()]
    maze("train", "sac", "--env", data.env, *options, "--run-dir", str(teacher), "-q")
    playing = ["--checkpoint", "last", "--stochastic", "--episodes", str(data.episodes), "--seed", "5"]
    figures = json.loads(maze("rollout", str(teacher), *playing, "--record", str(recording), "--json"))
    return float(figures["return_mean"])


def train(data: Data, algorithm: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train one seed and return its final score."""
    run_dir = folder / algorithm / f"s{seed}"
    length = [] if algorithm == "bc" else ["--epochs", "1", "--epoch-length", str(data.updates)]
    options = [
        "--dataset",
        str(folder / "recording"),
        "--seed",
        str(seed),
        "--set",
        "evaluation.n_episodes=20",
        *length,
    ]
    maze("train", algorithm, "--env", data.env, *options, "--run-dir", str(run_dir), "-q")
    summary = json.loads((run_dir / "run.json").read_text())["summary"]
    score = summary["final_evaluation"]["eval/return_mean"]
    print(f"{data.env}  {algorithm}  seed {seed}  {score:.1f}  in {summary['seconds']:.0f} s", flush=True)
    return {"score": score, "updates": summary["updates"], "seconds": summary["seconds"]}


def scores(result: dict[str, Any], algorithm: str) -> list[float]:
    return [run["score"] for run in result["runs"].get(algorithm, {}).values()]


def passes(result: dict[str, Any], algorithm: str) -> bool:
    """Whether an algorithm's mean is above the data and above BC."""
    ours, cloned = scores(result, algorithm), scores(result, "bc")
    return bool(ours and cloned) and statistics.fmean(ours) > max(result["data_return"], statistics.fmean(cloned))


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table: a line for each environment and algorithm."""
    return [line_of(env, result, name) for env, result in rows.items() for name in ALGORITHMS if name in result["runs"]]


def line_of(env: str, result: dict[str, Any], algorithm: str) -> list[str]:
    runs = list(result["runs"][algorithm].values())
    missing = result["seeds"] - len(runs)
    verdict = "met" if passes(result, algorithm) else "missed"
    if missing:
        verdict = f"open, {len(runs)} of {result['seeds']} seeds"
    return [
        env,
        algorithm,
        f"{runs[0]['updates']:,}",
        f"{result['data_return']:.1f}",
        with_interval(scores(result, algorithm)),
        "none" if algorithm == "bc" else f"above both: {verdict}",
        ", ".join(f"{score:.1f}" for score in scores(result, algorithm)),
        f"{statistics.fmean(run['seconds'] for run in runs):.0f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
