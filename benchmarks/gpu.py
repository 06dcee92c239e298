"""Training speed on a GPU: with steps from recordings, with steps one by one, and of other frameworks.

    python benchmarks/gpu.py                             all rows; the peers are those of this Python
    python benchmarks/gpu.py --only sac-Pendulum-v1 --rounds 5 --peer-python /path/to/venv/bin/python

Each measurement is a process of its own, one after the other, round by round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import results
import torch
from command import figures
from speed import OFF_POLICY_PEERS, PPO, SAC, WIDE

HERE = Path(__file__).parent
PAGE = "gpu"
SMALL = {**SAC, "warmup_updates": 200, "measured_updates": 600}
BIG = {**SAC, "hidden": [1024, 1024], "batch_size": 4096, "warmup_updates": 100, "measured_updates": 300}
TENSORS = {**WIDE, "num_envs": 4096, "batch_size": 32768, "warmup_updates": 2, "measured_updates": 4}
OURS = {
    "Maze, recorded": {"device": "cuda", "cuda_graphs": True},
    "Maze, step by step": {"device": "cuda", "cuda_graphs": False},
    "Maze, one CPU thread": {"device": "cpu"},
}


@dataclass(frozen=True)
class Row:
    """One workload, and the scripts of the peers by their names."""

    settings: dict[str, Any]
    ours: str
    peers: dict[str, str]


ON_POLICY_PEERS = {"stable-baselines3": "peers/sb3_onpolicy.py"}
ROWS = {
    "sac-Pendulum-v1": Row(SMALL, "ours_offpolicy.py", OFF_POLICY_PEERS),
    "ppo-4096-tensors": Row(TENSORS, "ours_tensors.py", {}),
    "ppo-1024-CartPole-v1": Row({**WIDE, "warmup_updates": 2, "measured_updates": 4}, "ours_onpolicy.py", {}),
    "td3-Pendulum-v1": Row({**SMALL, "algorithm": "td3"}, "ours_offpolicy.py", OFF_POLICY_PEERS),
    "sac-1024-Pendulum-v1": Row(BIG, "ours_offpolicy.py", OFF_POLICY_PEERS),
    "ppo-CartPole-v1": Row({**PPO, "warmup_updates": 3, "measured_updates": 6}, "ours_onpolicy.py", ON_POLICY_PEERS),
}
INTRODUCTION = """
# Speed on a GPU

Environment steps per second of training on one GPU, the medians of some rounds; each figure is of a process of its own,
after a warm-up, with one thread of the processor. SAC and TD3 take one update for each step. Their small rows have two
layers of 256 units and batches of 256, `sac-1024` two of 1,024 and batches of 4,096. `ppo-1024` has 1,024 natively
vectorised environments and minibatches of 8,192 rows; `ppo-4096-tensors` has 4,096 environments whose tensors stay on
the device. [Recorded](../guide/faster.md#recorded-steps) is the default on a GPU.

    python benchmarks/gpu.py
"""


def main() -> None:
    args = _parse()
    for name, row in ROWS.items():
        if args.only and name not in args.only:
            continue
        found: dict[str, list[float]] = {}
        for number in range(args.rounds):
            seeded = replace(row, settings={**row.settings, "seed": number + 1})
            for title, rate in _round(seeded, args.peer_python, args.cpu):
                found.setdefault(title, []).append(rate)
                print(name, title, f"{rate:,.1f}", flush=True)
        gpu = torch.cuda.get_device_name()
        results.merge(PAGE, name, {"settings": row.settings, "gpu": gpu, "rates": found})
    rows = results.load(PAGE)
    titles = list(dict.fromkeys(title for result in rows.values() for title in result["rates"]))
    cells = [[name, *(_median(result["rates"].get(title)) for title in titles)] for name, result in rows.items()]
    results.show("Environment steps per second", ["row", *titles], cells)
    results.write_page(PAGE, INTRODUCTION, ["row", *titles], cells, rows)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=ROWS, help="measure this row only")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-python", type=Path, default=Path(sys.executable), help="Python of the peers")
    parser.add_argument("--no-cpu", dest="cpu", action="store_false", help="leave out what is measured on the CPU")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no GPU")
    return args


def _round(row: Row, peer: Path, cpu: bool) -> list[tuple[str, float]]:
    """One measurement of each way; a peer that is not installed is left out."""
    found = []
    for title, more in OURS.items():
        if cpu or more["device"] == "cuda":
            found.append((title, _rate(Path(sys.executable), row.ours, {**row.settings, **more})))
    for title, script in row.peers.items():
        found.append((title, _rate(peer, script, {**row.settings, "device": "cuda"})))
    return found


def _rate(python: Path, script: str, settings: dict[str, Any]) -> float:
    return figures(python, HERE / script, json.dumps(settings))["env_steps_per_second"]


def _median(rates: list[float] | None) -> str:
    return f"{statistics.median(rates):,.0f}" if rates else "—"


if __name__ == "__main__":
    main()
