"""Does IMPALA survive? Trains on the runner `local`, kills an actor again and again, and watches the memory.

    python benchmarks/impala_soak.py                        30 minutes, a kill every minute
    python benchmarks/impala_soak.py --minutes 3 --every 10

It passes where the run ends well, every kill was followed by a restart, no process is left, and the memory of the last
third is not above that of the second by more than 5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from kills import processes
from maze_local.process_pool import ProcessPool

from maze_core import RunContext
from maze_core.run.run import Run

GROWTH = 1.05
SAMPLE_SECONDS = 2.0


@dataclass
class Watch:
    """Kills actors and notes the memory while a run trains."""

    every: float
    seconds: float
    kills: list[int] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    """Every actor process there was."""
    memory: list[dict[str, float]] = field(default_factory=list)
    """Samples: seconds since the start, MiB of the learner and of all processes together."""
    over: threading.Event = field(default_factory=threading.Event)

    def follow(self, run: Run, actors: ProcessPool) -> None:
        """Until the time is up; then ask the run to stop."""
        began = time.monotonic()
        next_kill = self.every
        while not self.over.wait(SAMPLE_SECONDS):
            now = time.monotonic() - began
            workers = actors.pids
            self.seen.update(workers)
            sizes = [resident(os.getpid()), *map(resident, workers)]
            self.memory.append({"seconds": now, "learner": sizes[0], "all": sum(sizes)})
            if now >= self.seconds:
                run.interrupt("the soak's end")
                return
            if now >= next_kill:
                victim = random.choice(workers)
                os.kill(victim, signal.SIGKILL)
                self.kills.append(victim)
                next_kill += self.every


def main() -> int:
    options = parse_options()
    torch.set_num_threads(1)
    watch = Watch(options.every, 60 * options.minutes)
    restarts = int(watch.seconds / watch.every) + 1
    overrides = {
        "algorithm.num_actors": options.actors,
        "algorithm.envs_per_actor": 4,
        "algorithm.epoch_length": 200,
        "algorithm.n_epochs": 0,
        "callbacks.early_stopping.patience": 0,
        "runner.max_restarts": restarts,
        "evaluation.num_envs": 1,
        "evaluation.n_episodes": 2,
    }
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with RunContext(
            options.env,
            "impala",
            runner="local",
            preset="none",
            overrides=overrides,
            run_dir=Path(folder) / "run",
            silent=True,
        ) as context:
            run: Any = context.run
            follower = threading.Thread(target=watch.follow, args=(run, run.algorithm._stream._actors))
            follower.start()
            try:
                summary = context.train()
            finally:
                watch.over.set()
                follower.join()
    noticed = [str(each.message) for each in caught if "is started again" in str(each.message)]
    return report(watch, noticed, summary.outcome, summary.env_steps)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="length of the run (default 30)")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two kills (default 60)")
    parser.add_argument("--actors", type=int, default=2, help="actor processes (default 2)")
    parser.add_argument("--env", default="CartPole-v1")
    return parser.parse_args()


def report(watch: Watch, noticed: list[str], outcome: str, env_steps: int) -> int:
    """Print what happened; 0 where it was as it must be."""
    third = len(watch.memory) // 3
    second, last = watch.memory[third : 2 * third], watch.memory[2 * third :]
    medians = {
        name: [statistics.median(sample[name] for sample in part) for part in (second, last)]
        for name in ("learner", "all")
    }
    growth = {name: last / second for name, (second, last) in medians.items()}
    left = sorted(watch.seen & processes().keys())
    facts = {
        "outcome": outcome,
        "env_steps": env_steps,
        "kills": len(watch.kills),
        "restarts": len(noticed),
        "memory_mib": {name: [round(value) for value in pair] for name, pair in medians.items()},
        "growth": {name: round(value, 3) for name, value in growth.items()},
        "processes_left": left,
    }
    print(json.dumps(facts, indent=1))
    well = outcome == "interrupted" and len(noticed) >= len(watch.kills) > 0 and not left
    return 0 if well and max(growth.values()) <= GROWTH else 1


def resident(pid: int) -> float:
    """MiB of a process that no other process shares, as far as the kernel tells; 0 where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


if __name__ == "__main__":
    sys.exit(main())
