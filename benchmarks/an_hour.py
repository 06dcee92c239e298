"""What does an hour of SAC reach on MuJoCo's robots? Trains with the paper's settings, and is stopped by the clock.

    python benchmarks/an_hour.py                                    an hour for each robot, one after the other
    python benchmarks/an_hour.py --only Hopper-v5 --minutes 20

The published scores of SAC are those of a million steps. An hour on one core is a third of it: the page says at which
step each figure was taken, and there is no gate.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import results
from command import MAZE, maze, one_thread

PAGE, EPISODES = "an_hour", 20
ROBOTS = {"HalfCheetah-v5": 9635, "Hopper-v5": 2310}
"""Each with CleanRL's score after a million steps, on version 4 of it."""
STEPS = 1_000_000
"""End of a run, which the clock comes before."""
INTERRUPTED = 130
HEADERS = ["environment", "minutes", "steps", "mean return ± std", "on the way", "env steps/s", "published, 1M steps"]
INTRODUCTION = f"""
# An hour of SAC

What `maze train sac --preset paper` reaches on MuJoCo's robots within the minutes shown: one seed, one core, stopped by
the clock long before the million steps of the published scores. So these figures show how fast it learns, not how well
it ends. The preset that HalfCheetah-v5 ships with learns faster: [Learning](learning.md) has both.

The return is the mean over {EPISODES} deterministic episodes, with the standard deviation among them, of the parameters
the run was stopped with. "On the way" are the evaluations nearest to a quarter, a half and three quarters of the steps.
The published scores are CleanRL's, on version 4 of the environments.

Made by `python benchmarks/an_hour.py`; the whole curves are in `an_hour.json`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(ROBOTS), action="append", help="this robot alone; repeatable")
    parser.add_argument("--minutes", type=float, default=60.0, help="time for each robot (default 60)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("runs/an_hour"), help="where the runs go")
    options = parser.parse_args()
    for env in options.only or ROBOTS:
        run_dir = options.runs / f"{time.strftime('%Y%m%d-%H%M%S')}-{env}"
        train(env, options.seed, options.minutes, run_dir)
        rows = results.merge(PAGE, env, {"minutes": options.minutes, **reached(run_dir)})
        cells = [line_of(*item) for item in rows.items()]
        results.write_page(PAGE, INTRODUCTION, HEADERS, cells, rows)
    results.show("An hour of SAC", HEADERS, cells)
    return 0


def train(env: str, seed: int, minutes: float, run_dir: Path) -> None:
    """Train until the time is up, then interrupt as Ctrl-C does: the run saves a checkpoint and ends."""
    command = [str(MAZE), "train", "sac", "--env", env, "--preset", "paper", "--steps", str(STEPS)]
    command += ["--seed", str(seed), "--run-dir", str(run_dir)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=one_thread()) as process:
        try:
            code = process.wait(60 * minutes)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            code = process.wait()
    if code not in (0, INTERRUPTED):
        raise SystemExit(f"{' '.join(command)} ended with exit code {code}")


def reached(run_dir: Path) -> dict[str, Any]:
    """The score of the last parameters, and the evaluations before."""
    options = ["--episodes", str(EPISODES), "--seed", "1000", "--checkpoint", "last", "--json"]
    tested = json.loads(maze("eval", str(run_dir), *options))
    summary = json.loads((run_dir / "run.json").read_text())["summary"]
    metrics = run_dir / "metrics.jsonl"
    epochs = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    curve = [[epoch["env_steps"], epoch["eval/return_mean"]] for epoch in epochs if "eval/return_mean" in epoch]
    return {
        "steps": summary["env_steps"],
        "seconds": summary["seconds"],
        "mean": tested["eval/return_mean"],
        "std": tested["eval/return_std"],
        "curve": curve,
    }


def line_of(env: str, result: dict[str, Any]) -> list[str]:
    wanted = [result["steps"] * quarter / 4 for quarter in (1, 2, 3)]
    nearest = (
        [min(result["curve"], key=lambda point: abs(point[0] - step)) for step in wanted] if result["curve"] else []
    )
    return [
        env,
        f"{result['minutes']:.0f}",
        f"{result['steps']:,}",
        f"{result['mean']:,.0f} ± {result['std']:,.0f}",
        "; ".join(f"{score:,.0f} at {step:,}" for step, score in nearest) or "-",
        f"{result['steps'] / result['seconds']:.0f}",
        f"{ROBOTS[env]:,}",
    ]


if __name__ == "__main__":
    sys.exit(main())
