"""PPO and A2C on the runners `local` and `ray` beside `dev`, with environments of which a step takes 0 to 10 ms.

    python benchmarks/runners.py
    python benchmarks/runners.py --only a2c --milliseconds 1 --pairs 5

Machines drift while a benchmark runs. So the runners take turns, each run in a process of its own, and each ratio is of
two neighbouring runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import results
from command import one_thread
from ours import measure
from statistics_of_runs import spread

PAGE, HERE = "runners", Path(__file__).parent
RUNNERS = ("dev", "local", "ray")
SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": {"algorithm.n_rollout_steps": 128, "algorithm.batch_size": 256, "algorithm.n_optimization_epochs": 4},
    "a2c": {"algorithm.n_rollout_steps": 16},
}
"""The rollouts of A2C are those of its preset for CartPole-v1."""
UPDATES = {"ppo": {0.0: 20, 0.1: 10, 1.0: 2, 10.0: 1}, "a2c": {0.0: 200, 0.1: 100, 1.0: 20, 10.0: 3}}
"""Updates of an epoch, by milliseconds of a step. The first epoch is the warm-up; three are measured, or one at 10 ms."""
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

Environment steps per second of PPO and A2C on CartPole-v1 whose steps sleep for the time shown: 8 environments, two
workers, networks of two layers of 64 units, rollouts of 128 and 16 steps, one torch thread. `ray` starts a Ray on this
machine. All runners give bit-equal results. The runners take turns, and each ratio is of two neighbouring runs; shown is
the median (min to max). The gate is a median of at least 0.8 without a sleep, and above 1 from 1 ms on.

A rollout on workers costs a fixed time: parameters out, a call, and an answer, about 1 ms on `ray`. It is divided among
the steps of a rollout, so it shows most for A2C, whose rollouts are short. Two workers save at most half the time that
eight environments need one after the other.

Made by `python benchmarks/runners.py`; the figures of every run are in `runners.json`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(SETTINGS), help="this algorithm alone")
    parser.add_argument("--milliseconds", action="append", type=float, choices=[0.0, 0.1, 1.0, 10.0])
    parser.add_argument("--pairs", type=int, default=3, help="runs on each runner (default 3)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(**json.loads(options.one))))
        return 0
    rows = results.load(PAGE)
    for algorithm in options.only or SETTINGS:
        for milliseconds in options.milliseconds or UPDATES[algorithm]:
            name = f"{algorithm} {milliseconds:g} ms"
            rows = results.merge(PAGE, name, paired(algorithm, milliseconds, options.pairs))
            results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)
    results.show("Runners", HEADERS, cells_of(rows))
    return 0 if all(passes(row) for row in rows.values()) else 1


def paired(algorithm: str, milliseconds: float, pairs: int) -> dict[str, Any]:
    """Return the rates of every run by runner."""
    rates: dict[str, list[float]] = {runner: [] for runner in RUNNERS}
    for pair in range(pairs):
        for runner in RUNNERS:
            settings = {"algorithm": algorithm, "milliseconds": milliseconds, "runner": runner, "seed": pair + 1}
            rates[runner].append(run_once(settings))
            print(
                f"{algorithm}  {milliseconds:g} ms  {pair + 1}/{pairs}  {runner:<6} {rates[runner][-1]:>9,.0f} steps/s"
            )
    return {"algorithm": algorithm, "milliseconds": milliseconds, "rates": rates}


def run_once(settings: dict[str, Any]) -> float:
    """One process, one measurement."""
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, str(HERE / "runners.py"), "--one", json.dumps(settings)]
    variables = {**one_thread(), "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    if done.returncode:
        sys.exit(f"{settings} failed:\n{done.stdout}\n{done.stderr}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def one(algorithm: str, milliseconds: float, runner: str, seed: int) -> float:
    """Train, and return the environment steps per second after the first epoch."""
    overrides = {
        **SETTINGS[algorithm],
        "algorithm.num_envs": 8,
        "algorithm.epoch_length": UPDATES[algorithm][milliseconds],
        "algorithm.n_epochs": 2 if milliseconds > 1 else 4,
        "evaluation.n_episodes": 0,
        "env.kwargs": {"milliseconds": milliseconds},
        **({} if runner == "dev" else {"runner.workers": 2}),
    }
    settings = {"algorithm": algorithm, "env": "sleeping:SleepingCartPole-v0", "seed": seed}
    return measure(settings, overrides, runner)["env_steps_per_second"]


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
    ordered = sorted(rows.values(), key=lambda row: (row["algorithm"] != "ppo", row["milliseconds"]))
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
