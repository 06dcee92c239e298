"""Does it learn? Trains each row with several seeds and compares the final evaluations with a gate.

    python benchmarks/learning.py                           all rows, 5 seeds
    python benchmarks/learning.py --only ppo-CartPole-v1 --seeds 2 --jobs 1

Every seed is one `maze train` process. Its score is the deterministic evaluation of the parameters it ended with: no
best checkpoint, no maximum over the training. Rows are merged into docs/benchmarks/learning.json one by one.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import results
from command import MAZE, one_thread
from statistics_of_runs import with_interval

PAGE = "learning"


@dataclass(frozen=True)
class Row:
    """One claim: `algorithm` reaches `gate` on `env` within `steps`, with the preset that ships with it."""

    algorithm: str
    env: str
    steps: int
    gate: float
    """Least mean of the seeds' final evaluations."""
    preset: str | None = None
    """None: the preset that is named like the environment, if the algorithm has one."""

    @property
    def name(self) -> str:
        chosen = [self.algorithm, *([self.preset] if self.preset else [])]
        return "-".join(chosen if self.env in (self.preset or "") else [*chosen, self.env])


ROWS = (
    Row("ppo", "CartPole-v1", 100_000, gate=475),
    Row("a2c", "CartPole-v1", 500_000, gate=475),
    Row("es", "CartPole-v1", 500_000, gate=475),
    Row("impala", "CartPole-v1", 500_000, gate=475),
    Row("ppo", "Acrobot-v1", 500_000, gate=-95),
    Row("ppo", "Pendulum-v1", 200_000, gate=-250),
    Row("ppo", "LunarLander-v3", 1_000_000, gate=200),
    Row("sac", "Pendulum-v1", 20_000, gate=-200),
    Row("sac", "CartPole-v1", 50_000, gate=475),
    Row("sac", "LunarLanderContinuous-v3", 300_000, gate=220),
    Row("sac", "Pendulum-v1", 10_000, gate=-170, preset="crossq"),
    Row("sac", "LunarLanderContinuous-v3", 300_000, gate=250, preset="tqc-LunarLanderContinuous-v3"),
    Row("td3", "Pendulum-v1", 20_000, gate=-170),
)

INTRODUCTION = """
# Learning

Each score is the deterministic evaluation of the parameters a run ended with: no best checkpoint, no maximum over the
training. The gate is on the mean over the seeds, shown with its 95 % confidence interval (Student's t). Seconds and
environment steps per second are those of a whole run, evaluations and logs counted, with the given number of runs
side by side.

Made by `python benchmarks/learning.py`; the figures of every run are in `learning.json`.
"""
HEADERS = ["row", "steps", "mean return (95 % CI)", "gate", "scores by seed", "seconds", "env steps/s", "side by side"]


def main() -> int:
    options = parse_options()
    stamp = time.strftime("%Y%m%d-%H%M%S")
    rows, missed = results.load(PAGE), 0
    for row in ROWS:
        if options.only and row.name not in options.only:
            continue
        result = measure(row, options.seeds, options.jobs, options.runs / row.name / stamp)
        rows = results.merge(PAGE, row.name, result)
        missed += not passes(result)
        write_page(rows)
    results.show("Learning", HEADERS, cells_of(rows))
    return 1 if missed else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[row.name for row in ROWS], help="train this row only")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each row, with seeds 1, 2, … (default 5)")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (default 2)")
    parser.add_argument("--runs", type=Path, default=Path("runs/learning"), help="where the run directories go")
    return parser.parse_args()


def measure(row: Row, seeds: int, jobs: int, folder: Path) -> dict[str, Any]:
    """Train all seeds of a row."""
    with ThreadPoolExecutor(jobs) as pool:
        try:
            runs = list(pool.map(lambda seed: train(row, seed, folder / f"s{seed}"), range(1, seeds + 1)))
        except BaseException:
            # Ctrl-C: without this the pool would first train the seeds that wait.
            pool.shutdown(cancel_futures=True)
            raise
    facts = {
        "steps": row.steps,
        "gate": row.gate,
        "preset": row.preset or "as shipped",
        "side_by_side": min(jobs, seeds),
    }
    return {**facts, "runs": runs}


def train(row: Row, seed: int, run_dir: Path) -> dict[str, Any]:
    """Train one seed in a process of its own; a run that fails has the score None and says why on the screen."""
    command = [str(MAZE), "train", row.algorithm, "--env", row.env, "--steps", str(row.steps), "--seed", str(seed)]
    command += ["--run-dir", str(run_dir), *(["--preset", row.preset] if row.preset else [])]
    finished = subprocess.run(command, capture_output=True, text=True, env=one_thread(), check=False)
    if finished.returncode:
        print(f"{' '.join(command)} failed:\n{finished.stdout[-2000:]}\n{finished.stderr[-2000:]}", flush=True)
        return {"seed": seed, "score": None, "exit_code": finished.returncode}
    summary = json.loads((run_dir / "run.json").read_text())["summary"]
    result = {
        "seed": seed,
        "score": summary["final_evaluation"]["eval/return_mean"],
        "episodes": summary["final_evaluation"]["eval/episodes"],
        **{name: summary[name] for name in ("env_steps", "updates", "seconds", "outcome", "reason")},
    }
    print(f"{row.name}  seed {seed}  {result['score']:.1f}  in {result['seconds']:.0f} s", flush=True)
    return result


def scores(result: dict[str, Any]) -> list[float]:
    return [run["score"] for run in result["runs"] if run["score"] is not None]


def passes(result: dict[str, Any]) -> bool:
    """Whether every seed finished and their mean reaches the gate."""
    found = scores(result)
    return len(found) == len(result["runs"]) > 0 and statistics.fmean(found) >= result["gate"]


def write_page(rows: dict[str, Any]) -> None:
    """Write the page of all rows measured so far."""
    results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table of all rows measured so far, in the order of ROWS."""
    known = [row.name for row in ROWS]
    ordered = sorted(rows, key=lambda name: known.index(name) if name in known else len(known))
    return [line_of(name, rows[name]) for name in ordered]


def line_of(name: str, result: dict[str, Any]) -> list[str]:
    """The table line of one row."""
    found = scores(result)
    done = [run for run in result["runs"] if run["score"] is not None]
    seconds = statistics.fmean(run["seconds"] for run in done) if done else math.nan
    rate = statistics.fmean(run["env_steps"] / run["seconds"] for run in done) if done else math.nan
    return [
        name,
        f"{result['steps']:,}",
        with_interval(found),
        f"≥ {result['gate']:g}: {'met' if passes(result) else 'missed'}",
        ", ".join("failed" if run["score"] is None else f"{run['score']:.1f}" for run in result["runs"]),
        f"{seconds:.0f}",
        f"{rate:,.0f}",
        str(result["side_by_side"]),
    ]


if __name__ == "__main__":
    sys.exit(main())
