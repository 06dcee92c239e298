"""PPO, A2C and SAC on the runners `local` and `ray` beside `dev`, with environments of which a step takes 0 to 10 ms.

    python benchmarks/runners.py
    python benchmarks/runners.py --only a2c --milliseconds 1 --rounds 5

Machines drift while a benchmark runs. So the runs of all three take turns, a block of a few updates each, and each
ratio is of two neighbouring blocks.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import results
from statistics_of_runs import spread

from maze_core import RunContext
from maze_core.base.process_state import torch_threads

PAGE, HERE = "runners", Path(__file__).parent
RUNNERS = ("dev", "local", "ray")
SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": {"algorithm.n_rollout_steps": 128, "algorithm.batch_size": 256, "algorithm.n_optimization_epochs": 4},
    "a2c": {"algorithm.n_rollout_steps": 16},
    "sac": {
        "algorithm.collect_steps": 512,
        "algorithm.utd": 1 / 16,
        "algorithm.critic_hidden": [64, 64],
        "model.hidden": [64, 64],
    },
}
"""The rollouts of A2C are those of its preset for CartPole-v1."""
UPDATES = {
    "ppo": {0.0: 2, 0.1: 2, 1.0: 1, 10.0: 1},
    "a2c": {0.0: 100, 0.1: 20, 1.0: 5, 10.0: 1},
    "sac": {0.0: 3, 0.1: 2, 1.0: 1, 10.0: 1},
}
"""Updates of a block, by milliseconds of a step: some tenths of a second."""
HEADERS = [
    "work",
    "ms per step",
    "dev, env steps/s",
    "local, env steps/s",
    "local ÷ dev",
    "ray, env steps/s",
    "ray ÷ dev",
    "gate",
]
INTRODUCTION = """
# Runners

Environment steps per second of PPO, A2C and SAC on CartPole-v1 whose steps sleep for the time shown: 8 environments,
two workers, networks of two layers of 64 units, rollouts of 128 and 16 steps, one torch thread. SAC takes 64 steps of
each environment, then 32 batches of 100 rows. `ray` starts a Ray on this machine. All runners give bit-equal results.
They take turns, and each ratio is of two neighbouring blocks of some tenths of a second; shown is the median (min to
max). The gate is a median of at least 0.8 without a sleep, and above 1 from 1 ms on.

A rollout on workers costs a fixed time: parameters out, a call, and an answer. It is divided among the steps of a
rollout, so it shows most for A2C, whose rollouts are short. Two workers save at most half the time that eight
environments need one after the other.

The machine of these figures has two cores, and two workers beside the driver are three processes. Nothing else ran.

Made by `python benchmarks/runners.py`; the figures of every block are in `runners.json`.
"""


def main() -> int:
    """Measure what was asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(SETTINGS), help="this algorithm alone")
    parser.add_argument("--milliseconds", action="append", type=float, choices=[0.0, 0.1, 1.0, 10.0])
    parser.add_argument("--rounds", type=int, default=10, help="blocks on each runner (default 10)")
    options = parser.parse_args()
    # Workers import the environments, too.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    rows = results.load(PAGE)
    for algorithm in options.only or SETTINGS:
        for milliseconds in options.milliseconds or UPDATES[algorithm]:
            name = f"{algorithm} {milliseconds:g} ms"
            rows = results.merge(PAGE, name, paired(algorithm, milliseconds, options.rounds))
            results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)
    results.show("Runners", HEADERS, cells_of(rows))
    return 0 if all(passes(row) for row in rows.values()) else 1


def paired(algorithm: str, milliseconds: float, rounds: int) -> dict[str, Any]:
    """Return the rates of every block by runner. The runs of all runners take turns."""
    updates, rates = UPDATES[algorithm][milliseconds], dict[str, list[float]]()
    with ExitStack() as stack:
        stack.enter_context(torch_threads(1))
        runs = {runner: stack.enter_context(context_of(algorithm, milliseconds, runner)).run for runner in RUNNERS}
        for round_ in range(-1, rounds):  # the first one is the warm-up
            for runner, run in runs.items():
                steps, began = run.env_steps, time.perf_counter()
                for _ in range(updates):
                    for batch in run.algorithm.batches():
                        run.learner.step(run.hooks.compute_loss(run.policy, batch), batch.group)
                rate = (run.env_steps - steps) / (time.perf_counter() - began)
                if round_ >= 0:
                    rates.setdefault(runner, []).append(rate)
                    print(
                        f"{algorithm}  {milliseconds:g} ms  {round_ + 1}/{rounds}  {runner:<6} {rate:>9,.0f}",
                        flush=True,
                    )
    return {"algorithm": algorithm, "milliseconds": milliseconds, "rates": rates}


def context_of(algorithm: str, milliseconds: float, runner: str) -> RunContext:
    """Return a run that has not begun."""
    overrides = {
        **SETTINGS[algorithm],
        "algorithm.num_envs": 8,
        "evaluation.n_episodes": 1,
        "env.kwargs": {"milliseconds": milliseconds},
        **({} if runner == "dev" else {"runner.workers": 2}),
    }
    env, kind = "sleeping:SleepingCartPole-v0", {"runner": runner, "preset": "none", "run_dir": None}
    return RunContext(env, algorithm, overrides=overrides, seed=1, silent=True, **kind)


def ratios(row: dict[str, Any], runner: str) -> list[float]:
    """The rate relative to `dev`, pair by pair."""
    return [rate / dev for rate, dev in zip(row["rates"][runner], row["rates"]["dev"], strict=True)]


def gate(milliseconds: float) -> float | None:
    """The least ratio; None: there is none."""
    return 0.8 if milliseconds == 0 else 1.0 if milliseconds >= 1 else None


def passes(row: dict[str, Any], runners: tuple[str, ...] = RUNNERS[1:]) -> bool:
    """Whether runners reach the gate."""
    least = gate(row["milliseconds"])
    return least is None or all(statistics.median(ratios(row, runner)) >= least for runner in runners)


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table."""
    ordered = sorted(rows.values(), key=lambda row: (list(SETTINGS).index(row["algorithm"]), row["milliseconds"]))
    return [_line(row) for row in ordered]


def _line(row: dict[str, Any]) -> list[str]:
    cells = [row["algorithm"], f"{row['milliseconds']:g}", spread(row["rates"]["dev"], ",.0f")]
    for runner in RUNNERS[1:]:
        cells += [spread(row["rates"][runner], ",.0f"), spread(ratios(row, runner), ".2f")]
    least = gate(row["milliseconds"])
    met = [f"{runner} {'met' if passes(row, (runner,)) else 'missed'}" for runner in RUNNERS[1:]]
    return [*cells, "" if least is None else f"≥ {least:g}: {', '.join(met)}"]


if __name__ == "__main__":
    sys.exit(main())
