"""The learning curves of algorithms that are in no table of benchmarks: the run that their page shows, with some seeds.

    python benchmarks/page_curves.py                   all rows
    python benchmarks/page_curves.py --only maml-PointNavigation --seeds 1

A finished seed is written to docs/benchmarks/page_curves.json at once, and is not trained again, so that this can be
continued where it stopped. `python docs/charts.py` draws the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import results
from command import MAZE, one_thread

PAGE = "page_curves"
ALGORITHMS = results.FOLDER.parent / "algorithms"
MOST = 60
"""Most points of a curve."""


@dataclass(frozen=True)
class Row:
    """The run of a page."""

    command: str
    """Arguments of `maze`, without seed and folder."""
    metrics: tuple[str, ...]
    """Of each epoch."""
    counter: str = "env_steps"
    """What a curve is drawn over."""
    before: tuple[str, ...] = ()
    """Commands that make what the run learns from."""
    file: tuple[str, str] | None = None
    """A page, and the file that it shows and the run needs."""


ROWS = {
    "maml-PointNavigation": Row(
        "train maml --env maze_meta.navigation:PointNavigation --epoch-length 5 --set evaluation.n_episodes=1",
        ("train/return_mean", "train/adapted_return_mean"),
    ),
    "cql-Pendulum-v1": Row(
        "train cql --env Pendulum-v1 --dataset half_trained --epochs 20 --epoch-length 250 --lr 0.0003 "
        "--batch-size 128 --sampled-actions 4 --critic-hidden 128,128 "
        "--set model.hidden=[128,128] --set evaluation.n_episodes=30",
        ("eval/return_mean",),
        "updates",
        (
            "train sac --env Pendulum-v1 --preset none --seed 1 --steps 3000 --batch-size 256 "
            "--initial-buffer-size 100 --entropy-coef-lr 0.001 --epoch-length 500 --set evaluation.n_episodes=5 "
            "--quiet --run-dir sac",
            "rollout sac --checkpoint previous --stochastic --episodes 20 --seed 5 --record half_trained",
        ),
    ),
    "rllib_ppo-CartPole-v1": Row("train rllib-ppo --env CartPole-v1", ("eval/return_mean",)),
}


def main() -> None:
    """Train what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=ROWS, action="append", help="rows; all by default")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each row, from 1")
    given = parser.parse_args()
    os.nice(15)
    for name in given.only or ROWS:
        known = results.load(PAGE).get(name, {})
        runs = known.get("runs", {}) if known.get("command") == ROWS[name].command else {}
        missing = [seed for seed in range(1, given.seeds + 1) if str(seed) not in runs]
        with tempfile.TemporaryDirectory() as folder:
            if missing:
                prepare(ROWS[name], Path(folder))
            for seed in missing:
                runs[str(seed)] = trained(ROWS[name], seed, Path(folder))
                results.merge(PAGE, name, {"command": ROWS[name].command, "runs": runs})
                sys.stdout.write(f"{name}, seed {seed}: {summary(runs[str(seed)])}\n")
                sys.stdout.flush()


def prepare(row: Row, folder: Path) -> None:
    """Write the file that a page shows, and make what the run learns from."""
    if row.file is not None:
        page, file = row.file
        text = (ALGORITHMS / f"{page}.md").read_text(encoding="utf-8")
        found = re.search(rf"```python\n(# {re.escape(file)}\n.*?)```", text, re.DOTALL)
        if found is None:
            sys.exit(f"docs/algorithms/{page}.md shows no {file}")
        (folder / file).write_text(found[1], encoding="utf-8")
    for command in row.before:
        maze(command.split(), folder)


def trained(row: Row, seed: int, folder: Path) -> dict[str, list[list[float]]]:
    """Return the curve of each metric of a run."""
    maze([*row.command.split(), "--seed", str(seed), "--quiet", "--run-dir", f"run-{seed}"], folder)
    lines = [json.loads(line) for line in (folder / f"run-{seed}" / "metrics.jsonl").read_text().splitlines()]
    found = {}
    for metric in row.metrics:
        points = [[line[row.counter], round(line[metric], 3)] for line in lines if line.get(metric) is not None]
        found[metric] = points[:: 1 + len(points) // MOST]
    return found


def maze(arguments: list[str], folder: Path) -> None:
    """Run a command in a folder; one that fails ends the program and says why."""
    done = subprocess.run(
        [str(MAZE), *arguments], cwd=folder, capture_output=True, text=True, env=one_thread(), check=False
    )
    if done.returncode:
        sys.exit(f"maze {' '.join(arguments)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def summary(curves: dict[str, Any]) -> str:
    """Return the last value of each curve."""
    return ", ".join(f"{metric} {points[-1][1]}" for metric, points in curves.items())


if __name__ == "__main__":
    main()
