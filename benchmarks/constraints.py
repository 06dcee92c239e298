"""Constraints that hold: what policies cost and earn that learn with a limit, on three environments.

    python benchmarks/constraints.py                       all rows, three seeds
    python benchmarks/constraints.py --only ppo-inventory --seeds 1

A finished seed is written to docs/benchmarks/constraints.json at once and is not trained again; a run that was
interrupted goes on. So this can be continued where it stopped. `--page` writes the page alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import results
from command import maze

PAGE = "constraints"
EPISODES = 200
"""Of the evaluation of the best checkpoint, whose actions are samples, as in training."""
RUNS = Path("runs") / "constraints"


@dataclass(frozen=True)
class Row:
    """What is trained."""

    title: str
    command: str
    """Arguments of `maze train`, without seed and folder."""
    name: str
    """The constraint."""
    limit: float
    reference: str
    """The best feasible return that is known, in words."""
    best: float | None
    """That return; None: nobody knows one."""


_OFTEN = "--epoch-length 4"
_INVENTORY = "--env maze_devkit.inventory:Inventory --set constraints.late_orders.at_most=0.1"
_ORDER_UP_TO = ("the best mixture of two rules `order up to S`: 172", 172.0)
_CHEETAH = "--env HalfCheetah-v5 --set env.max_episode_steps=200 --set constraints.x_velocity.at_most=100"
_SPEED = ("the limit itself, which no policy exceeds that keeps it: the return is the speed less control costs", 100.0)
_SWIMMER = "--env Swimmer-v5 --set env.max_episode_steps=200 --set constraints.x_velocity.at_most=20"
_SLOWLY = (_SPEED[0], 20.0)
_CUTTING = "--env-source cutting_2d --set constraints.event/stock/mean.at_most=8"
ROWS = {
    "ppo-inventory": Row(
        "Inventory, PPO", f"ppo {_INVENTORY} {_OFTEN} --steps 60000", "late_orders", 0.1, *_ORDER_UP_TO
    ),
    "ppo-swimmer": Row("Swimmer-v5, PPO", f"ppo {_SWIMMER} {_OFTEN} --steps 60000", "x_velocity", 20.0, *_SLOWLY),
    "ppo-cutting": Row(
        "cutting_2d, PPO", f"ppo {_CUTTING} {_OFTEN} --steps 60000", "event/stock/mean", 8.0, "none is known", None
    ),
    "sac-inventory": Row(
        "Inventory, SAC", f"sac {_INVENTORY} --steps 6000 --initial-buffer-size 1000", "late_orders", 0.1, *_ORDER_UP_TO
    ),
    "td3-inventory": Row(
        "Inventory, TD3", f"td3 {_INVENTORY} --steps 6000 --initial-buffer-size 1000", "late_orders", 0.1, *_ORDER_UP_TO
    ),
    "sac-cheetah": Row(
        "HalfCheetah-v5, SAC",
        f"sac {_CHEETAH} --steps 12000 --initial-buffer-size 1000",
        "x_velocity",
        100.0,
        *_SPEED,
    ),
}
_SHARED = "--preset none --set evaluation.deterministic=false --set evaluation.n_episodes=50 --quiet"


def main() -> None:
    """Train what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(ROWS), action="append")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    for seed in range(1, 0 if options.page else options.seeds + 1):
        for key in options.only or ROWS:
            row = results.load(PAGE).get(key, {"runs": {}})
            if row["runs"].get(str(seed), {}).get("command") != ROWS[key].command:
                row["runs"][str(seed)] = {"command": ROWS[key].command, **measured(key, seed)}
                results.merge(PAGE, key, {"runs": row["runs"]})
                write_page()
    write_page()


def measured(key: str, seed: int) -> dict[str, Any]:
    """Train a row with a seed, or go on where it stopped; what its best policy costs and earns."""
    row = ROWS[key]
    folder = RUNS / f"{key}-{seed}-{hashlib.sha256(row.command.encode()).hexdigest()[:8]}"
    if (folder / "checkpoints" / "last").exists():
        if not json.loads((folder / "run.json").read_text()).get("summary"):
            maze("resume", str(folder))
    else:
        maze("train", *row.command.split(), *_SHARED.split(), "--seed", str(seed), "--run-dir", str(folder))
    found = json.loads(maze("eval", str(folder), "--stochastic", "-n", str(EPISODES), "--seed", "7", "--json"))
    return {"cost": found[f"eval/constraint/{row.name}"], "return": found["eval/return_mean"]}


def write_page() -> None:
    """Write the table of what has been measured."""
    lines = [
        "# Constraints",
        "",
        "The best checkpoints of runs with a [constraint](../guide/objectives.md#constraints), by "
        f"{EPISODES} new episodes with sampled actions, as in training. Values are those of the seeds, from the first "
        "on. Within 5 % means: the mean over the seeds exceeds the limit by at most 5 %. "
        "Written by `python benchmarks/constraints.py`.",
        "",
        "| run | limit | number | within 5 % | return | of the best feasible | that is |",
        "|---|---:|---:|---|---:|---:|---|",
    ]
    for key, row in ROWS.items():
        found = [run for run in results.load(PAGE).get(key, {"runs": {}})["runs"].values() if "cost" in run]
        if not found:
            continue
        costs, gains = [each["cost"] for each in found], [each["return"] for each in found]
        share = "" if row.best is None else f"{statistics.fmean(gains) / row.best:.2f}"
        within = "yes" if statistics.fmean(costs) <= 1.05 * row.limit else "no"
        cells = (_joined(costs), within, _joined(gains), share, row.reference)
        lines.append(f"| {row.title} | `{row.name}` ≤ {row.limit:g} | {' | '.join(cells)} |")
    commands = [f"maze train {row.command}" for row in ROWS.values()]
    lines += ["", "The commands, each with `" + _SHARED.replace(" --quiet", "") + "`:", "", "```text", *commands, "```"]
    results.write(PAGE, ["\n".join(lines)])


def _joined(values: list[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


if __name__ == "__main__":
    main()
