"""What the scripts that measure Maze share: train once, silently, and report the rate after the first epoch."""

from __future__ import annotations

import json
import resource
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from maze_core import RunContext


def measure(settings: dict[str, Any], overrides: dict[str, Any], runner: str = "dev") -> dict[str, float]:
    """Train a run whose first epoch is the warm-up. Peak memory is that of the largest process."""
    with tempfile.TemporaryDirectory() as folder:
        with RunContext(
            algorithm=settings["algorithm"],
            env=settings["env"],
            runner=runner,
            preset="none",
            overrides={
                "callbacks.early_stopping.patience": 0,
                "evaluation.n_episodes": 1,
                "threads": 1,
                "algorithm.device": settings.get("device", "cpu"),
                "compile": settings.get("compile", "auto"),
                "cuda_graphs": settings.get("cuda_graphs", True),
                **overrides,
            },
            run_dir=Path(folder) / "run",
            seed=settings["seed"],
            silent=True,
        ) as context:
            context.train()
        lines = (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
    # Between two epochs the run evaluates and saves: each epoch's rate counts its training alone.
    epochs = [json.loads(line) for line in lines]
    steps = [after["env_steps"] - before["env_steps"] for before, after in pairwise(epochs)]
    rates = [epoch["time/env_steps_per_second"] for epoch in epochs[1:]]
    seconds = sum(count / rate for count, rate in zip(steps, rates, strict=True))
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "env_steps_per_second": sum(steps) / seconds,
        "env_steps": sum(steps),
        "seconds": seconds,
        "peak_rss_kib": peak,
    }
