"""Does the Decision Transformer improve on half-trained data? Records SAC as `offline.py` does, and compares with BC.

    python benchmarks/sequence.py                            Pendulum-v1, both algorithms, 3 seeds
    python benchmarks/sequence.py --seeds 1

A score is the mean return of 100 deterministic episodes with the parameters a run ended with: no best checkpoint, no
maximum over the training. The gate: the Decision Transformer is better than BC by 20 % of what BC's return is below 0.
A finished seed is written to docs/benchmarks/sequence.json at once, and is not trained again, so a table can be
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
from offline import DATA, record
from statistics_of_runs import with_interval

PAGE, ENV, EPISODES, GAIN = "sequence", "Pendulum-v1", 100, 0.2
UPDATES, SEEDS = 2000, 3
LENGTH = ("--epochs", "2", "--epoch-length", str(UPDATES // 2), "--lr-schedule", "linear")
OPTIONS = {"bc": (), "dt": (*LENGTH, "--context", "5", "--batch-size", "320")}
HEADERS = ["environment", "algorithm", "updates", "the data", "mean return (95 % CI)", "gate", "scores by seed",
           "seconds"]  # fmt: skip
INTRODUCTION = f"""
# Decision Transformer

SAC trains for a short time; its sampled actions are recorded as for [offline learning](offline.md), and BC and the
Decision Transformer learn from the same recording, the latter for {UPDATES} updates, with a falling learning rate and a
context of 5 steps.
Scores are mean returns of {EPISODES} deterministic episodes with the parameters a run ended with: no best checkpoint,
no maximum over the training. Returns are negative: the gate is that the mean over the seeds, shown with its 95 %
confidence interval (Student's t), is nearer to 0 than BC's by {GAIN:.0%}. Seconds are those of training and evaluation.

Made by `python benchmarks/sequence.py`; the figures of every run are in `sequence.json`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"seeds of each algorithm (default {SEEDS})")
    parser.add_argument("--runs", type=Path, default=Path("runs/sequence"), help="where recordings and runs go")
    options = parser.parse_args()
    data, folder = next(each for each in DATA if each.env == ENV), options.runs / ENV
    known = results.load(PAGE).get(ENV) or {"data_return": record(data, folder), "runs": {}}
    for seed in range(1, options.seeds + 1):
        for algorithm in OPTIONS:
            runs = known["runs"].setdefault(algorithm, {})
            if str(seed) not in runs:
                if not (folder / "recording").exists():
                    record(data, folder)
                runs[str(seed)] = train(algorithm, seed, folder)
                rows = results.merge(PAGE, ENV, known)
                results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(known), rows)
    results.show("Decision Transformer", HEADERS, cells_of(known))
    return 0 if passes(known) else 1


def train(algorithm: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train one seed and test it."""
    run_dir = folder / algorithm / f"s{seed}"
    shutil.rmtree(run_dir, ignore_errors=True)  # of a benchmark that was interrupted
    where = ["--dataset", str(folder / "recording"), "--seed", str(seed), "--run-dir", str(run_dir), "-q"]
    maze("train", algorithm, "--env", ENV, "--set", "evaluation.n_episodes=20", *OPTIONS[algorithm], *where)
    summary = json.loads((run_dir / "run.json").read_text())["summary"]
    playing = ["--checkpoint", "last", "--deterministic", "--episodes", str(EPISODES), "--seed", "1000", "--json"]
    score = float(json.loads(maze("rollout", str(run_dir), *playing))["return_mean"])
    print(f"{ENV}  {algorithm}  seed {seed}  {score:.1f}  in {summary['seconds']:.0f} s", flush=True)
    return {"score": score, "updates": summary["updates"], "seconds": summary["seconds"]}


def scores(result: dict[str, Any], algorithm: str) -> list[float]:
    return [run["score"] for run in result["runs"].get(algorithm, {}).values()]


def passes(result: dict[str, Any]) -> bool:
    """Whether the Decision Transformer's mean is nearer to 0 than BC's by the gain."""
    ours, cloned = (statistics.fmean(scores(result, name) or [float("-inf")]) for name in ("dt", "bc"))
    return ours >= cloned * (1 - GAIN)


def verdict(result: dict[str, Any]) -> str:
    fewest = min(len(scores(result, name)) for name in OPTIONS)
    return ("met" if passes(result) else "missed") if fewest >= SEEDS else f"open, {fewest} of {SEEDS} seeds"


def cells_of(result: dict[str, Any]) -> results.Cells:
    """The table: a line for each algorithm."""
    return [
        [
            ENV,
            name,
            f"{next(iter(runs.values()))['updates']:,}",
            f"{result['data_return']:.1f}",
            with_interval(scores(result, name)),
            "none" if name == "bc" else f"bc + {GAIN:.0%}: {verdict(result)}",
            ", ".join(f"{score:.1f}" for score in scores(result, name)),
            f"{statistics.fmean(run['seconds'] for run in runs.values()):.0f}",
        ]
        for name, runs in result["runs"].items()
    ]


if __name__ == "__main__":
    sys.exit(main())
