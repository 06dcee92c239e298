"""PPO on Pong: frames per second beside Stable-Baselines3, and the learning curve of a run.

    python benchmarks/pong.py                       all rows; makes .venv-bench for the peer first
    python benchmarks/pong.py --only "1 thread, bfloat16" --pairs 1
    python benchmarks/pong.py --curve runs/pong     only add the curve of this run to the page

Both frameworks run in turn as processes of their own, and each ratio is of two neighbouring runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import curves
import results
from speed import Row, lines_of, measure, passes, prepare_venv

PAGE = "pong"
GATE = 2.0
CURVE = "curve"
"""The row of the file with the learning curve."""
FRAMES_PER_STEP = 4
PPO = {
    "algorithm": "ppo",
    "env": "ALE/Pong-v5",
    "num_envs": 8,
    "stack": 4,
    "sticky_actions": 0.0,
    "n_rollout_steps": 128,
    "batch_size": 256,
    "n_optimization_epochs": 4,
    "lr": 2.5e-4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_range": 0.1,
    "entropy_coef": 0.01,
    "value_loss_coef": 0.5,
    "max_grad_norm": 0.5,
    "warmup_updates": 1,
    "measured_updates": 3,
}
"""The parameters of RL Baselines3 Zoo for Atari, without the schedules."""
ROWS = tuple(
    Row(
        f"{name}, {precision}",
        {**PPO, "threads": threads, "image_precision": precision},
        "ours_pong.py",
        {"stable-baselines3": "peers/sb3_pong.py"},
        GATE,
    )
    for precision in ("float32", "bfloat16")
    for threads, name in ((1, "1 thread"), (2, "2 threads"))
)
INTRODUCTION = """
# Pong

PPO on Pong, from pictures, on a CPU. An environment step is four frames of the game. Both frameworks have the
hyper-parameters that [RL Baselines3 Zoo](https://github.com/DLR-RM/rl-baselines3-zoo) lists for Atari, with constant
learning rate and clip range: 8 games side by side, 128 steps of each, 4 passes in minibatches of 256, and the network
of Mnih et al. 2015 with a shared critic. Both see four gray frames of 84 x 84 pixels and act without sticky actions.
Stable-Baselines3 steps the games with its `AtariWrapper`, one after the other; Maze with ALE's vector environment. Each
row gives torch, and in Maze ALE as well, the same number of threads.

The rows `float32` compare like with like. In the rows `bfloat16` Maze's convolutions and dense layer learn
[in bfloat16](../guide/models.md#learning-from-images-in-bfloat16), and Stable-Baselines3, which has no such setting, in
float32. This processor has AMX, which multiplies matrices of bfloat16; on one without it they are slower than float32.

Rates count training alone, after a first update. Both run in turn as separate processes, and each ratio is that of two
neighbouring runs, because the speed of a machine drifts. Shown is the median (min to max) over the pairs. Rows are
measured at different times: compare ratios, not rates.

Made by `python benchmarks/pong.py`; the figures of every run are in `pong.json`.
"""
HEADERS = ["work", "env steps/s", "peak memory, MiB", "maze ÷ peer", "gate"]


def main() -> int:
    options = parse_options()
    if options.curve is not None:
        results.merge(PAGE, CURVE, curve_of(options.curve))
        write_page()
        return 0
    peer_python = options.peer_python or prepare_venv()
    missed = 0
    for row in ROWS:
        if options.only in (None, row.name):
            result = measure(row, options.pairs, peer_python)
            missed += not passes(result)
            results.merge(PAGE, row.name, result)
            write_page()
    results.show("Pong", HEADERS, cells_of(results.load(PAGE)))
    return 1 if missed else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[row.name for row in ROWS], help="measure this row only")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each framework (default 5)")
    parser.add_argument("--peer-python", type=Path, help="python of an environment that has the peer")
    parser.add_argument("--curve", type=Path, metavar="RUN", help="measure nothing; add the curve of this run")
    return parser.parse_args()


def curve_of(run_dir: Path) -> dict[str, Any]:
    """What a run has learned so far: returns of training and of evaluations, after each epoch."""
    epochs = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return {
        name: [[epoch["env_steps"], round(epoch[key], 3)] for epoch in epochs if epoch.get(key) is not None]
        for name, key in (("training", "train/return_mean"), ("evaluation", "eval/return_mean"))
    }


def write_page() -> None:
    rows = results.load(PAGE)
    results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows, learning(rows.get(CURVE)))


def cells_of(rows: dict[str, Any]) -> results.Cells:
    return [line for row in ROWS if row.name in rows for line in lines_of(row.name, rows[row.name])]


def learning(curve: dict[str, Any] | None) -> str:
    """The section with the learning curve; empty without one."""
    if curve is None:
        return ""
    points: list[list[float]] = curve["training"]
    curves.draw("Pong", {"training": [points], "greedy evaluation, 1 game": [curve["evaluation"]]})
    best, (steps, last) = max(score for _, score in points), points[-1]
    return f"""## Learning

One run of `maze train ppo --env-source atari --env ALE/Pong-v5 --steps 250000` with the preset that ships, in float32,
and one thread, stopped by the clock on a machine that did much other work. A game ends at 21 points; the return is the
agent's points less its opponent's. Its last epoch ended after {steps:,.0f} steps
({steps * FRAMES_PER_STEP:,.0f} frames), with a mean return of {last:.1f}; the best epoch had {best:.1f}. A random
policy gets -20.7 (Mnih et al. 2015). The preset is made for 10 million steps, so this is only the beginning.

![Learning curve on Pong](curves/Pong.svg)"""


if __name__ == "__main__":
    sys.exit(main())
