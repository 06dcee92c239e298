"""Do demonstrations help? Trains SAC, and SACfD from a recording with half of the steps, with several seeds each.

    python benchmarks/demonstrations.py                      5 seeds of each
    python benchmarks/demonstrations.py --seeds 2 --jobs 1

A score is the deterministic evaluation of the parameters a run ended with: no best checkpoint, no maximum over the
training. The gate: the mean of SACfD is not below that of SAC.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import results
from command import maze
from statistics_of_runs import with_interval

PAGE, ENV, EXPERT = "demonstrations", "LunarLanderContinuous-v3", "lunar_lander_heuristics"
STEPS = {"sac": 60_000, "sacfd": 30_000}
RECORDED = 100
EPISODES = 50
HEADERS = ["algorithm", "steps", "mean return (95 % CI)", "scores by seed", "seconds"]
INTRODUCTION = f"""
# Demonstrations

`sac`, and `sacfd` with half of its steps, on {ENV} with the preset that ships with them. The
buffer of `sacfd` begins with {RECORDED} episodes of `{EXPERT}`, that of `sac` with random steps, which count.
Each score is the mean return of {EPISODES} deterministic episodes with the parameters a run ended with: no best
checkpoint, no maximum over training. The gate: the mean of `sacfd` is not below that of `sac`. Scores this early in
training differ widely from seed to seed, so look at the intervals as well.

Made by `python benchmarks/demonstrations.py`; the figures of every run are in `demonstrations.json`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="runs of each, with seeds 1, 2, … (default 5)")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (default 2)")
    parser.add_argument("--runs", type=Path, default=Path("runs/demonstrations"), help="where the runs go")
    options = parser.parse_args()
    folder = options.runs / time.strftime("%Y%m%d-%H%M%S")
    recording = ["--episodes", str(RECORDED), "--seed", "1", "--record", str(folder / "demos"), "--json"]
    recorded = json.loads(maze("rollout", "--policy", EXPERT, "--env", ENV, *recording))
    del recorded["record"]
    runs = [(algorithm, seed) for seed in range(1, options.seeds + 1) for algorithm in ("sacfd", "sac")]
    with ThreadPoolExecutor(options.jobs) as pool:
        done = list(pool.map(lambda run: train(*run, folder), runs))
    rows: dict[str, Any] = {}
    for algorithm, steps in STEPS.items():
        own = [result for result in done if result["algorithm"] == algorithm]
        rows = results.merge(PAGE, algorithm, {"steps": steps, "expert": recorded, "runs": own})
    cells = [line_of(*item) for item in rows.items()]
    results.write_page(PAGE, INTRODUCTION, HEADERS, cells, rows)
    results.show("Demonstrations", HEADERS, cells)
    return 0 if mean(rows["sacfd"]) >= mean(rows["sac"]) else 1


def train(algorithm: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train one seed and test what it ended with."""
    run_dir = folder / f"{algorithm}-s{seed}"
    options = ["--steps", str(STEPS[algorithm]), "--seed", str(seed), "--run-dir", str(run_dir)]
    if algorithm == "sacfd":
        options += ["--initial-demonstrations", str(folder / "demos")]
    maze("train", algorithm, "--env", ENV, *options)
    tested = ["--episodes", str(EPISODES), "--seed", "1000", "--checkpoint", "last", "--json"]
    score = json.loads(maze("eval", str(run_dir), *tested))["eval/return_mean"]
    seconds = json.loads((run_dir / "run.json").read_text())["summary"]["seconds"]
    print(f"{algorithm}  seed {seed}  {score:.1f}  in {seconds:.0f} s", flush=True)
    return {"algorithm": algorithm, "seed": seed, "score": score, "seconds": seconds}


def mean(result: dict[str, Any]) -> float:
    return statistics.fmean(run["score"] for run in result["runs"])


def line_of(algorithm: str, result: dict[str, Any]) -> list[str]:
    scores = [run["score"] for run in result["runs"]]
    return [
        algorithm,
        f"{result['steps']:,}",
        with_interval(scores),
        ", ".join(f"{score:.1f}" for score in scores),
        f"{statistics.fmean(run['seconds'] for run in result['runs']):.0f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
