"""Ape-X beside DQN where environment steps take time: seconds for equal steps, in turn.

    python benchmarks/apex.py                       three pairs at 1 ms a step
    python benchmarks/apex.py --milliseconds 3 --pairs 5

Both have eight environments on two worker processes and the settings of their CartPole presets, one batch for two
steps.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import sleeping
from statistics_of_runs import spread

from maze_core import RunContext

assert sleeping.Sleeping  # registers the environment, for workers too
CASES = {"dqn": {"runner.workers": 2}, "apex": {"algorithm.num_actors": 2}}


def seconds_of(algorithm: str, milliseconds: float, steps: int, seed: int) -> tuple[float, int, float]:
    """Return the seconds of a run after its start, the environment steps, and the return of the last evaluation."""
    overrides: dict[str, Any] = {
        "env.kwargs.milliseconds": milliseconds,
        "evaluation.n_episodes": 5,
        "evaluation.num_envs": 5,
        "callbacks.best_checkpoint": None,
        "algorithm.epoch_length": 100_000,
        "callbacks.tensorboard": None,
        **CASES[algorithm],
    }
    with RunContext(
        "sleeping:SleepingCartPole-v0",
        algorithm,
        preset="CartPole-v1",
        runner="local",
        seed=seed,
        silent=True,
        run_dir=None,
        overrides=overrides,
        steps=steps,
    ) as context:
        _ = context.run  # builds environments and workers
        began = time.perf_counter()
        summary = context.train()
        seconds = time.perf_counter() - began
        return seconds, summary.env_steps, context.evaluate()["eval/return_mean"]


def main() -> None:
    """Print the seconds of each pair and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--milliseconds", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=16_000)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    ratios = []
    for seed in range(options.pairs):
        found = {name: seconds_of(name, options.milliseconds, options.steps, seed) for name in CASES}
        for name, (seconds, steps, score) in found.items():
            print(f"{name}: {steps:,} steps in {seconds:.1f} s, return {score:.0f}", flush=True)
        ratios.append(found["dqn"][0] / found["apex"][0])
    print(f"DQN's seconds / Ape-X's: {spread(ratios, '.2f')}")


if __name__ == "__main__":
    main()
