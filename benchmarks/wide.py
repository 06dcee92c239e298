"""Where the time of PPO and A2C goes with 8 to 4,096 environments that gymnasium steps as arrays.

    python benchmarks/wide.py
    python benchmarks/wide.py --only ppo --envs 8 --seconds 20

Each row is one `maze profile`. Beside it gymnasium alone steps the same environments, with random actions.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import gymnasium
import numpy as np
import results
from command import maze

PAGE, ENV = "wide", "CartPole-v1"
WIDTHS = (8, 64, 512, 1024, 4096)
STEPS = 128
"""Steps of a rollout."""
ALGORITHMS = ("ppo", "a2c")
PARTS = ("environment", "acting", "batches", "loss", "optimizer", "rest")
HEADERS = ["work", "environments", "env steps/s", *(f"{part}, µs" for part in PARTS), "gymnasium alone, µs"]
INTRODUCTION = """
# Wide

Where the time of a step of one environment goes, in microseconds, with more and more environments that gymnasium steps
as arrays (`env.vectorization=native`), on CartPole-v1. Rollouts have 128 steps, networks two layers of 64 units for
policy and critic each. PPO takes four passes over a rollout in four minibatches, compiled (`compile=on`), so its losses
are part of `optimizer`; the last minibatch of a pass, which lacks the rows of resets, is filled up, with 4,096
environments computed by formulas. The time of compiling is not counted. A2C takes one step of the optimizer, by
formulas. One torch thread, no evaluations.

`environment` is gymnasium's step with Maze's checks of what it returns; the last column is gymnasium's step alone, with
random actions, whose episodes are shorter than those of a policy that learns. `batches` is storing, advantages and
shuffling. [Profiling](../guide/faster.md#where-the-time-goes) explains the parts.

With a few environments the time is that of single calls: of numpy in the environment and in Maze, a microsecond each.
With many it is arithmetic. Each episode that ends is an object of its own: with 4,096 environments and a policy that
has just begun these are 150 in a step. Minibatches have 131,072 rows there, which no longer fit into the processor's
caches.

Made by `python benchmarks/wide.py`.
"""


def main() -> int:
    """Measure what was asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=ALGORITHMS, help="this algorithm alone")
    parser.add_argument("--envs", action="append", type=int, choices=WIDTHS, help="this number of environments alone")
    parser.add_argument("--seconds", type=float, default=10.0, help="of training, for each row (default 10)")
    options = parser.parse_args()
    rows = results.load(PAGE)
    for algorithm in options.only or ALGORITHMS:
        for count in options.envs or WIDTHS:
            facts = {**profile(algorithm, count, options.seconds), "gymnasium": alone(count, options.seconds / 5)}
            rows = results.merge(PAGE, f"{algorithm} {count}", {"algorithm": algorithm, "envs": count, **facts})
            results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)
    results.show("Wide", HEADERS, cells_of(rows))
    return 0


def profile(algorithm: str, count: int, seconds: float) -> dict[str, Any]:
    """Return what `maze profile --json` prints for training with so many environments."""
    settings = {
        "env.vectorization": "native",
        "algorithm.num_envs": count,
        "algorithm.n_rollout_steps": STEPS,
        "model.hidden": [64, 64],
        "evaluation.n_episodes": 0,
    }
    if algorithm == "ppo":
        settings |= {"compile": "on", "algorithm.n_optimization_epochs": 4, "algorithm.batch_size": STEPS * count // 4}
    chosen = [part for path, value in settings.items() for part in ("--set", f"{path}={value}")]
    told = ("--env", ENV, "--preset", "none", "--seconds", str(seconds), "--json")
    facts: dict[str, Any] = json.loads(maze("profile", algorithm, *told, *chosen))
    return facts


def alone(count: int, seconds: float) -> float:
    """Return the microseconds that gymnasium takes for a step of one environment among so many."""
    env = gymnasium.make_vec(ENV, count, vectorization_mode="vector_entry_point")
    env.reset(seed=1)
    actions = np.random.default_rng(1).integers(0, 2, (256, count))
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for each in actions:
            env.step(each)
        steps += len(actions) * count
    return (time.perf_counter() - began) / steps * 1e6


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """Return the table: a line for each algorithm and number of environments."""
    ordered = sorted(rows.values(), key=lambda row: (ALGORITHMS.index(row["algorithm"]), row["envs"]))
    return [line_of(row) for row in ordered]


def line_of(row: dict[str, Any]) -> list[str]:
    """Return a line of the table."""
    steps, parts = row["env_steps"], {part: took for part, took in row["parts"].items() if part != "compiling"}
    training = sum(parts.values())
    parts["rest"] = training - sum(parts.get(part, 0.0) for part in PARTS[:-1])
    each = [f"{parts.get(part, 0.0) / steps * 1e6:.2f}" for part in PARTS]
    return [row["algorithm"], f"{row['envs']:,}", f"{steps / training:,.0f}", *each, f"{row['gymnasium']:.2f}"]


if __name__ == "__main__":
    sys.exit(main())
