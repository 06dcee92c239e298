"""Time to a score with many environments: FastTD3 and FlashSAC beside PPO, TD3 and SAC, on one core.

    python benchmarks/parallel_learners.py --seeds 1 2 3 --out parallel_learners.json

Each run is a process of its own with one thread. The runs of a seed follow each other, so what else the machine does
meets all of them. The time is that of the processor, from the first step to the end of the evaluation of five episodes
whose mean return is the first to reach the score. A run that takes longer than `--limit` has not reached it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ENV, SCORE = "Pendulum-v1", -200.0
OFTEN = {"evaluation.n_episodes": 5, "callbacks.tensorboard": None}
WIDE = {"algorithm.num_envs": 64, "algorithm.utd": 0.0625, "algorithm.initial_buffer_size": 1280}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "fast_td3, 64 environments": ("fast_td3", {"algorithm.epoch_length": 20}),
    "flash_sac, 64 environments": ("flash_sac", {"algorithm.epoch_length": 20}),
    "td3, 64 environments": ("td3", {**WIDE, "algorithm.epoch_length": 20}),
    "sac, 64 environments": ("sac", {**WIDE, "algorithm.epoch_length": 20}),
    "ppo, 64 environments": (
        "ppo",
        {"algorithm.num_envs": 64, "algorithm.n_rollout_steps": 32, "algorithm.epoch_length": 3},
    ),
    "td3, preset": ("td3", {"algorithm.epoch_length": 500}),
    "sac, preset": ("sac", {"algorithm.epoch_length": 250}),
    "ppo, preset": ("ppo", {"algorithm.epoch_length": 3}),
}
"""Beside the presets of each algorithm for this task."""


def one(name: str, seed: int, limit: float) -> dict[str, Any]:
    """Train until the score or the limit; return what it took."""
    import torch

    from maze_core import Plugin, RunContext, hookimpl

    torch.set_num_threads(1)
    algorithm, settings = SETTINGS[name]
    found: dict[str, Any] = {}
    begun = time.process_time()

    class Watch(Plugin):
        """Notes the time of the first evaluation that reaches the score, and ends the run."""

        @hookimpl
        def on_epoch_end(self, run: Any, epoch: Any) -> None:
            seconds = time.process_time() - begun
            reached = epoch.metrics["eval/return_mean"] >= SCORE
            found.update(reached=reached, cpu_s=seconds, env_steps=epoch.env_steps, updates=run.learner.steps)
            if reached or seconds > limit:
                run.stop("measured")

    with tempfile.TemporaryDirectory() as folder:
        parts: dict[str, Any] = {"run_dir": Path(folder) / "run", "seed": seed, "silent": True, "steps": 2_000_000}
        with RunContext(ENV, algorithm, overrides=OFTEN | settings, callbacks={"watch": Watch}, **parts) as context:
            _ = context.run
            begun = time.process_time()
            context.train()
    return found


def main() -> None:
    """Measure all in turn, or one in this process."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of the processor for a run")
    parser.add_argument("--only", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", action="store_true", help="measure the first of each here, and print it as JSON")
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(one(asked.only[0], asked.seeds[0], asked.limit)))
        return
    results: dict[str, dict[str, Any]] = {name: {} for name in asked.only}
    for seed in asked.seeds:
        for name in asked.only:
            command = [
                sys.executable,
                __file__,
                "--one",
                "--only",
                name,
                "--seeds",
                str(seed),
                "--limit",
                str(asked.limit),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            results[name][str(seed)] = json.loads(done.stdout.splitlines()[-1])
            print(seed, name, results[name][str(seed)], flush=True)
    if asked.out:
        asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
