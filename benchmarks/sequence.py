"""Does the Decision Transformer improve on half-trained data? Records SAC, and compares with BC.

    python benchmarks/sequence.py                            Pendulum-v1, both recordings and algorithms, 3 seeds
    python benchmarks/sequence.py --seeds 1

There are two recordings. One is of the half-trained policy alone, as in `offline.py`: its episodes differ by chance.
The other one is of the same run at several moments until then, as the medium-replay data of the paper: its episodes
differ by what the policy could.

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
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import results
from command import maze
from offline import DATA, Data, record
from statistics_of_runs import with_interval

PAGE, ENV, EPISODES, GAIN = "sequence", "Pendulum-v1", 100, 0.2
UPDATES, SEEDS = 2000, 3
LENGTH = ("--epochs", "2", "--epoch-length", str(UPDATES // 2), "--lr-schedule", "linear")
OPTIONS = {"bc": (), "dt": (*LENGTH, "--context", "5", "--batch-size", "320")}
MORE = {("half-trained", "dt"): ("--return-expectile", "0.999", "--weight-decay", "0.1")}
"""Further options by recording. Where one policy was recorded, the best episode began best: from others it is out of
reach."""
HEADERS = ["recorded", "algorithm", "updates", "the data", "mean return (95 % CI)", "gate", "scores by seed",
           "seconds"]  # fmt: skip
MOMENTS, EPISODES_OF_EACH = (600, 1000, 1400, 1800, 2200, 2600), 10
"""Steps of SAC after which its policy is recorded, and the episodes of each."""
_MOMENTS = ", ".join(f"{moment:,}" for moment in MOMENTS)
INTRODUCTION = f"""
# Decision Transformer

SAC trains on {ENV} until it is half as good as it becomes. Recorded are the sampled actions of its policy then
(`half-trained`, as for [offline learning](#offline-learning)), or of its policies after {_MOMENTS} steps
(`on the way`, {EPISODES_OF_EACH} episodes each, which differ by what a policy could, as in the paper's medium-replay
data). BC and the Decision Transformer learn from the same recording, the latter for {UPDATES} updates, with a falling
learning rate and a context of 5 steps. From the half-trained policy alone, whose episodes differ by how they begin, it
has `return_expectile` 0.999 and `weight_decay` 0.1, chosen on other seeds.
Scores are mean returns of {EPISODES} deterministic episodes with the parameters a run ended with: no best checkpoint,
no maximum over the training. Returns are negative: the gate is that the mean over the seeds, shown with its 95 %
confidence interval (Student's t), is nearer to 0 than BC's by {GAIN:.0%}. Seconds are those of training and evaluation.

Made by `python benchmarks/sequence.py`; the figures of every run are in `sequence.json`.
"""


def record_at_the_end(data: Data, folder: Path) -> float:
    """Record SAC when it is half trained; return the mean return."""
    return record(data, folder / "sac", folder / "recording")


def record_on_the_way(data: Data, folder: Path) -> float:
    """Record SAC at some moments until then; return the mean return of all. With one seed, longer runs begin alike."""
    moments = [replace(data, trained=moment, episodes=EPISODES_OF_EACH) for moment in MOMENTS]
    return statistics.fmean(
        record(each, folder / "sac" / str(each.trained), folder / "recording" / str(each.trained)) for each in moments
    )


RECORDED: dict[str, Callable[[Data, Path], float]] = {
    "half-trained": record_at_the_end,
    "on the way": record_on_the_way,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"seeds of each algorithm (default {SEEDS})")
    parser.add_argument("--runs", type=Path, default=Path("runs/sequence"), help="where recordings and runs go")
    options = parser.parse_args()
    data = next(each for each in DATA if each.env == ENV)
    for name, record_data in RECORDED.items():
        measure(name, partial(record_data, data), options.runs / name.replace(" ", "-"), options.seeds)
    results.show("Decision Transformer", HEADERS, cells_of(results.load(PAGE)))
    return 0 if all(map(passes, results.load(PAGE).values())) else 1


def measure(name: str, record_data: Callable[[Path], float], folder: Path, seeds: int) -> None:
    """Train what is missing of one recording."""
    known = results.load(PAGE).get(name) or {"data_return": record_data(folder), "runs": {}}
    for runs, algorithm, seed in results.missing(known, OPTIONS, seeds):
        if not (folder / "recording").exists():
            record_data(folder)
        runs[str(seed)] = train(algorithm, seed, folder)
        rows = results.merge(PAGE, name, known)
        results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)


def train(algorithm: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train one seed and test it."""
    run_dir = folder / algorithm / f"s{seed}"
    shutil.rmtree(run_dir, ignore_errors=True)  # of a benchmark that was interrupted
    where = ["--dataset", str(folder / "recording"), "--seed", str(seed), "--run-dir", str(run_dir), "-q"]
    options = OPTIONS[algorithm] + MORE.get((folder.name, algorithm), ())
    maze("train", algorithm, "--env", ENV, "--set", "evaluation.n_episodes=20", *options, *where)
    summary = json.loads((run_dir / "run.json").read_text())["summary"]
    playing = ["--checkpoint", "last", "--deterministic", "--episodes", str(EPISODES), "--seed", "1000", "--json"]
    score = float(json.loads(maze("rollout", str(run_dir), *playing))["return_mean"])
    print(f"{folder.name}  {algorithm}  seed {seed}  {score:.1f}  in {summary['seconds']:.0f} s", flush=True)
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


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table: a line for each algorithm of each recording."""
    return [
        [
            name,
            algorithm,
            f"{next(iter(runs.values()))['updates']:,}",
            f"{result['data_return']:.1f}",
            with_interval(scores(result, algorithm)),
            "none" if algorithm == "bc" else f"bc + {GAIN:.0%}: {verdict(result)}",
            ", ".join(f"{score:.1f}" for score in scores(result, algorithm)),
            f"{statistics.fmean(run['seconds'] for run in runs.values()):.0f}",
        ]
        for name, result in rows.items()
        for algorithm, runs in result["runs"].items()
    ]


if __name__ == "__main__":
    sys.exit(main())
