"""Do imitators do what their expert does? Records PPO, imitates it with several seeds, compares on equal episodes.

    python benchmarks/imitation.py                              all environments and algorithms
    python benchmarks/imitation.py --only CartPole-v1 --seeds 1

A score is the deterministic return of the parameters a run ended with, over 100 episodes: no best checkpoint, no
maximum over the training. The expert plays the same episodes. The gate is 90 % of the expert for GAIL and AIRL. A
finished seed is written to docs/benchmarks/imitation.json at once, and is not trained again, so a table can be
continued where it stopped.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

import results
from command import maze
from statistics_of_runs import with_interval

PAGE, GATE, SEEDS, RECORDED, EPISODES, TEST_SEED = "imitation", 0.9, 3, 20, 100, 1000
ENVIRONMENTS, ALGORITHMS = ("CartPole-v1", "LunarLander-v3"), ("bc", "gail", "airl")
HEADERS = ["environment", "expert", "algorithm", "steps", "mean return (95 % CI)", "of the expert", "gate",
           "scores by seed", "seconds"]  # fmt: skip
INTRODUCTION = f"""
# Imitation

PPO learns with its preset and a seed of 1; {RECORDED} episodes of its best policy are recorded, and each algorithm
learns from them with its preset. GAIL and AIRL step the environment and never see its rewards; BC has the recording
alone. Scores are mean returns of {EPISODES} deterministic episodes with the parameters a run ended with, the same
episodes for all: no best checkpoint, no maximum over the training. The gate is on the mean over the seeds, shown with
its 95 % confidence interval (Student's t). Seconds are those of training, evaluations counted.

Made by `python benchmarks/imitation.py`; the figures of every run are in `imitation.json`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=ENVIRONMENTS, help="this environment only")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"seeds of each algorithm (default {SEEDS})")
    parser.add_argument("--runs", type=Path, default=Path("runs/imitation"), help="where recordings and runs go")
    options = parser.parse_args()
    for env in ENVIRONMENTS:
        if not options.only or env in options.only:
            measure(env, options.seeds, options.runs / env)
    rows = results.load(PAGE)
    results.show("Imitation", HEADERS, cells_of(rows))
    return 0 if all(share(rows[env], name) >= GATE for env in rows for name in ALGORITHMS[1:]) else 1


def measure(env: str, seeds: int, folder: Path) -> None:
    """Train what is missing of one environment."""
    known = results.load(PAGE).get(env) or {**record(env, folder), "runs": {}}
    for runs, algorithm, seed in results.missing(known, ALGORITHMS, seeds):
        if not (folder / "recording").exists():
            record(env, folder)
        runs[str(seed)] = train(env, algorithm, seed, folder)
        rows = results.merge(PAGE, env, known)
        results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)


def record(env: str, folder: Path) -> dict[str, Any]:
    """Train the expert where there is none, record it, and return its score and the size of the recording."""
    expert = str(folder / "expert")
    if not (folder / "expert" / "run.json").exists():
        maze("train", "ppo", "--env", env, "--seed", "1", "--run-dir", expert, "-q")
    playing = ["--episodes", str(RECORDED), "--seed", "1", "--record", str(folder / "recording"), "--json"]
    recorded = json.loads(maze("rollout", expert, *playing))
    return {"expert_score": test(expert), "recorded_steps": recorded["steps"]}


def train(env: str, algorithm: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train one seed and test it."""
    run_dir = str(folder / algorithm / f"s{seed}")
    data = str(folder / "recording")
    shutil.rmtree(run_dir, ignore_errors=True)  # of a benchmark that was interrupted
    maze("train", algorithm, "--env", env, "--dataset", data, "--seed", str(seed), "--run-dir", run_dir, "-q")
    summary = json.loads((Path(run_dir) / "run.json").read_text())["summary"]
    score = test(run_dir, "--checkpoint", "last")
    print(f"{env}  {algorithm}  seed {seed}  {score:.1f}  in {summary['seconds']:.0f} s", flush=True)
    return {"score": score, "steps": summary["env_steps"], "seconds": summary["seconds"]}


def test(run_dir: str, *options: str) -> float:
    """The mean return over the test episodes."""
    playing = ["--deterministic", "--episodes", str(EPISODES), "--seed", str(TEST_SEED), "--json"]
    return float(json.loads(maze("rollout", run_dir, *options, *playing))["return_mean"])


def scores(result: dict[str, Any], algorithm: str) -> list[float]:
    return [run["score"] for run in result["runs"].get(algorithm, {}).values()]


def share(result: dict[str, Any], algorithm: str) -> float:
    """An algorithm's mean as a share of the expert's."""
    return statistics.fmean(scores(result, algorithm)) / float(result["expert_score"])


def verdict(result: dict[str, Any], algorithm: str) -> str:
    count = len(scores(result, algorithm))
    if count < SEEDS:
        return f"open, {count} of {SEEDS} seeds"
    return "met" if share(result, algorithm) >= GATE else "missed"


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table: a line for each environment and algorithm."""
    return [line_of(env, result, name) for env, result in rows.items() for name in ALGORITHMS if name in result["runs"]]


def line_of(env: str, result: dict[str, Any], algorithm: str) -> list[str]:
    runs = list(result["runs"][algorithm].values())
    return [
        env,
        f"{result['expert_score']:.1f}",
        algorithm,
        f"{runs[0]['steps']:,}",
        with_interval(scores(result, algorithm)),
        f"{share(result, algorithm):.1%}",
        "none" if algorithm == "bc" else f"≥ {GATE:.0%}: {verdict(result, algorithm)}",
        ", ".join(f"{score:.1f}" for score in scores(result, algorithm)),
        f"{statistics.fmean(run['seconds'] for run in runs):.0f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
