"""Speed of SAC in Maze: `python ours_offpolicy.py SETTINGS_AS_JSON` prints one line of JSON."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from maze_core import RunContext

SAME_NAME = ("lr", "gamma", "tau", "batch_size", "initial_buffer_size", "replay_buffer_size")


def overrides(settings: dict[str, Any]) -> dict[str, Any]:
    """The first epoch is the warm-up, as many epochs of the same length are measured."""
    epochs, remainder = divmod(settings["measured_updates"], settings["warmup_updates"])
    if remainder:
        raise ValueError("measured_updates must be a multiple of warmup_updates")
    return {
        **{f"algorithm.{name}": settings[name] for name in SAME_NAME},
        "algorithm.entropy_coef_lr": settings["lr"],
        "algorithm.entropy_coef": 1.0,
        "algorithm.critic_hidden": settings["hidden"],
        "algorithm.epoch_length": settings["warmup_updates"],
        "algorithm.n_epochs": 1 + epochs,
        "algorithm.patience": 0,
        "evaluation.n_episodes": 1,
        "model.hidden": settings["hidden"],
        "threads": 1,
    }


def main() -> None:
    settings = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        context = RunContext(
            algorithm=settings["algorithm"],
            env=settings["env"],
            preset="none",
            overrides=overrides(settings),
            run_dir=Path(folder) / "run",
            seed=settings["seed"],
            silent=True,
        )
        context.train()
        lines = (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
    # Between two epochs the run evaluates and saves: each epoch's rate counts its training alone.
    epochs = [json.loads(line) for line in lines]
    steps = [after["env_steps"] - before["env_steps"] for before, after in pairwise(epochs)]
    rates = [epoch["time/env_steps_per_second"] for epoch in epochs[1:]]
    seconds = sum(count / rate for count, rate in zip(steps, rates, strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = {"env_steps_per_second": sum(steps) / seconds, "env_steps": sum(steps), "seconds": seconds}
    print(json.dumps({**result, "peak_rss_kib": peak}))


if __name__ == "__main__":
    main()
