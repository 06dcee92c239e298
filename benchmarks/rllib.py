"""Do RLlib's algorithms learn in Maze as they do without it? Trains both for equal steps, with several seeds.

    python benchmarks/rllib.py                             all rows
    python benchmarks/rllib.py --only rllib-dqn --seeds 1

Maze trains with the preset that ships, RLlib alone with its own defaults and network. A score is the mean return of 50
deterministic episodes with the parameters a run ended with: no best checkpoint, no maximum over the training. A
finished pair is written to docs/benchmarks/rllib.json at once, and is not trained again, so a table can be continued
where it stopped.
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
from command import figures, maze
from statistics_of_runs import number

PAGE, SEEDS, EPISODES, TEST_SEED = "rllib", 3, 50, 1000
ROWS: dict[str, tuple[str, int, float]] = {
    "rllib-ppo": ("CartPole-v1", 60_000, 0.0),
    "rllib-appo": ("CartPole-v1", 60_000, 0.0),
    "rllib-impala": ("CartPole-v1", 60_000, 0.0),
    "rllib-dqn": ("CartPole-v1", 10_000, 0.0),
    "rllib-sac": ("Pendulum-v1", 6_000, 25.0),
}
"""Environment, steps, and how much less the mean may be than that of RLlib alone."""
HEADERS = ["algorithm", "environment", "steps", "in Maze", "RLlib alone", "gate", "by seed", "seconds"]
INTRODUCTION = f"""
# RLlib compared with RLlib

The algorithms of RLlib in Maze, with the presets that ship, beside RLlib alone with its own defaults and network; equal
steps, environments and learner in one process. Scores are mean returns of {EPISODES} deterministic episodes with the
parameters a run ended with. The gate is on the means over the seeds: no less in Maze than alone, in Pendulum within 25.

Made by `python benchmarks/rllib.py`; the figures of every run are in `rllib.json`.
"""
PLAIN = Path(__file__).with_name("peers") / "rllib_plain.py"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=ROWS, help="this algorithm only")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"seeds of each algorithm (default {SEEDS})")
    parser.add_argument("--runs", type=Path, default=Path("runs/rllib"), help="where the run directories go")
    options = parser.parse_args()
    for seed in range(1, options.seeds + 1):
        for name in ROWS:
            known = results.load(PAGE).get(name, {"runs": {}})
            if (not options.only or name in options.only) and str(seed) not in known["runs"]:
                known["runs"][str(seed)] = {"maze": ours(name, seed, options.runs), "alone": alone(name, seed)}
                print(name, seed, known["runs"][str(seed)], flush=True)
                rows = results.merge(PAGE, name, known)
                results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)
    rows = results.load(PAGE)
    results.show("RLlib", HEADERS, cells_of(rows))
    return 0 if all(lead(name, rows[name]) >= 0 for name in rows) else 1


def ours(name: str, seed: int, runs: Path) -> dict[str, float]:
    """Train and test in Maze."""
    env, steps, _ = ROWS[name]
    run = str(runs / f"{name}-s{seed}")
    shutil.rmtree(run, ignore_errors=True)  # of a benchmark that was interrupted
    maze("train", name, "--env", env, "--steps", str(steps), "--seed", str(seed), "--run-dir", run, "-q")
    summary = json.loads((Path(run) / "run.json").read_text())["summary"]
    playing = ["--checkpoint", "last", "--deterministic", "--episodes", str(EPISODES), "--seed", str(TEST_SEED)]
    score = json.loads(maze("rollout", run, *playing, "--json"))["return_mean"]
    return {"score": score, "steps": summary["env_steps"], "seconds": summary["seconds"]}


def alone(name: str, seed: int) -> dict[str, float]:
    """Train and test with RLlib alone."""
    env, steps, _ = ROWS[name]
    return figures(Path(sys.executable), PLAIN, name.removeprefix("rllib-").upper(), env, str(steps), str(seed))


def scores(result: dict[str, Any], side: str) -> list[float]:
    return [run[side]["score"] for run in result["runs"].values()]


def lead(name: str, result: dict[str, Any]) -> float:
    """How far Maze's mean is above the gate."""
    means = {side: statistics.fmean(scores(result, side)) for side in ("maze", "alone")}
    return means["maze"] - means["alone"] + ROWS[name][2]


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table: a line for each algorithm."""
    return [line_of(name, rows[name]) for name in ROWS if name in rows]


def line_of(name: str, result: dict[str, Any]) -> list[str]:
    env, steps, slack = ROWS[name]
    count = len(result["runs"])
    verdict = f"open, {count} of {SEEDS} seeds" if count < SEEDS else "met" if lead(name, result) >= 0 else "missed"
    seconds = {
        side: statistics.fmean(run[side]["seconds"] for run in result["runs"].values()) for side in ("maze", "alone")
    }
    return [
        name,
        env,
        f"{steps:,}",
        *(number(statistics.fmean(scores(result, side))) for side in ("maze", "alone")),
        f"{'≥ RLlib' if not slack else f'≥ RLlib - {slack:.0f}'}: {verdict}",
        ", ".join(f"{a:.0f} ({b:.0f})" for a, b in zip(scores(result, "maze"), scores(result, "alone"), strict=True)),
        f"{seconds['maze']:.0f} ({seconds['alone']:.0f})",
    ]


if __name__ == "__main__":
    sys.exit(main())
