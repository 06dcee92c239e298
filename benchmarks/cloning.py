"""Does a clone do what its expert does? Records experts, clones them with several seeds, compares on equal episodes.

    python benchmarks/cloning.py                      all rows, 5 seeds
    python benchmarks/cloning.py --only CartPole-v1 --seeds 2

A clone's score is the deterministic return of the parameters its run ended with, over 100 episodes: no best
checkpoint, no maximum over the training. The expert plays the same episodes. The gate is 95 % of the expert.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import results
from command import maze
from statistics_of_runs import with_interval

PAGE, GATE, EPISODES, TEST_SEED = "cloning", 0.95, 100, 1000
HEADERS = ["row", "recorded", "expert", "clones, mean (95 % CI)", "of the expert", "gate", "scores by seed", "seconds"]
INTRODUCTION = f"""
# Cloning

Experts are recorded and cloned with the presets of `bc`. Scores are mean returns of {EPISODES} episodes, the same ones
for an expert and its clones. A clone's is the deterministic return of the parameters its run ended with: no best
checkpoint, no maximum over the training. The gate is on the mean over the seeds, shown with its 95 % confidence
interval (Student's t). Seconds are those of training, evaluations counted.

Made by `python benchmarks/cloning.py`; the figures of every run are in `cloning.json`.
"""


@dataclass(frozen=True)
class Row:
    """An expert: a policy plugin, or PPO trained with its preset and a seed of 1."""

    env: str
    episodes: int
    """Episodes recorded."""
    policy: str | None = None


ROWS = (Row("CartPole-v1", 50), Row("LunarLander-v3", 100, "lunar_lander_heuristics"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[row.env for row in ROWS], help="measure this row only")
    parser.add_argument("--seeds", type=int, default=5, help="clones of each expert, with seeds 1, 2, … (default 5)")
    parser.add_argument("--runs", type=Path, default=Path("runs/cloning"), help="where recordings and runs go")
    options = parser.parse_args()
    rows, missed = results.load(PAGE), 0
    for row in ROWS:
        if options.only and row.env not in options.only:
            continue
        result = measure(row, options.seeds, options.runs / row.env / time.strftime("%Y%m%d-%H%M%S"))
        rows = results.merge(PAGE, row.env, result)
        missed += share(result) < GATE
        results.write_page(PAGE, INTRODUCTION, HEADERS, [line_of(*item) for item in rows.items()], rows)
    results.show("Cloning", HEADERS, [line_of(*item) for item in rows.items()])
    return 1 if missed else 0


def measure(row: Row, seeds: int, folder: Path) -> dict[str, Any]:
    """Record the expert, clone it with every seed."""
    expert = ["--policy", row.policy, "--env", row.env] if row.policy else [str(folder / "expert")]
    if not row.policy:
        maze("train", "ppo", "--env", row.env, "--seed", "1", "--run-dir", expert[0])
    recorded = rollout(*expert, "--episodes", str(row.episodes), "--seed", "1", "--record", str(folder / "demos"))
    facts = {"expert": row.policy or "ppo", "recorded_episodes": row.episodes, "recorded_steps": recorded["steps"]}
    runs = [clone(row.env, seed, folder) for seed in range(1, seeds + 1)]
    return {**facts, "expert_score": test(*expert), "runs": runs}


def clone(env: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train one clone and test it."""
    run_dir = folder / f"s{seed}"
    options = ["--dataset", str(folder / "demos"), "--seed", str(seed), "--run-dir", str(run_dir)]
    maze("train", "bc", "--env", env, *options)
    summary = json.loads((run_dir / "run.json").read_text())["summary"]
    result = {"seed": seed, "score": test(str(run_dir), "--checkpoint", "last", "--deterministic"),
              "best_checkpoint": test(str(run_dir), "--deterministic"),
              **{name: summary[name] for name in ("updates", "epochs", "seconds", "reason")}}  # fmt: skip
    print(f"{env}  seed {seed}  {result['score']:.1f}  in {result['seconds']:.0f} s", flush=True)
    return result


def test(*what: str) -> float:
    """The mean return over the test episodes."""
    return float(rollout(*what, "--episodes", str(EPISODES), "--seed", str(TEST_SEED))["return_mean"])


def rollout(*arguments: str) -> dict[str, Any]:
    statistics_of_episodes: dict[str, Any] = json.loads(maze("rollout", *arguments, "--json"))
    return statistics_of_episodes


def share(result: dict[str, Any]) -> float:
    """The clones' mean as a share of the expert's."""
    return statistics.fmean(run["score"] for run in result["runs"]) / result["expert_score"]


def line_of(env: str, result: dict[str, Any]) -> list[str]:
    scores = [run["score"] for run in result["runs"]]
    return [
        f"{env}, {result['expert']}",
        f"{result['recorded_episodes']} episodes, {result['recorded_steps']:,.0f} steps",
        f"{result['expert_score']:.1f}",
        with_interval(scores),
        f"{share(result):.1%}",
        f"≥ {GATE:.0%}: {'met' if share(result) >= GATE else 'missed'}",
        ", ".join(f"{score:.1f}" for score in scores),
        f"{statistics.fmean(run['seconds'] for run in result['runs']):.0f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
