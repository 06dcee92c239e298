"""Run directories without runs: what a run would have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from maze_core.plugins.config.record import write_record
from tests.run_records import record_of


@pytest.fixture
def make_run(tmp_path: Path) -> Any:
    """`make_run(name, returns, **config)`: a run with 100 steps an epoch, its returns, and `algorithm` changes."""

    def build(name: str, returns: list[float | None], *, outcome: str | None = "finished", seed: int = 0,
              final: float | None = None, algorithm: str = "ppo", env: str = "CartPole-v1", every: int = 100,
              init_from: str | None = None, **parameters: Any) -> Path:  # fmt: skip
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        config = {
            "env": {"name": "gymnasium", "id": env, "kwargs": {}},
            "algorithm": {"name": algorithm, "lr": 0.001, "gamma": 0.99, **parameters},
            "callbacks": {"console": {"name": "console"}} if seed % 2 else {},
            "seed": seed,
            "steps": None,
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config) + "# Written with:\n")
        lines = [
            {"epoch": i, "env_steps": every * i, "updates": i, "seconds": i / 2, "eval/return_mean": value}
            for i, value in enumerate(returns, 1)
        ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        summary = outcome and {
            "outcome": outcome,
            "reason": f"because {name}",
            "epochs": len(returns),
            "env_steps": every * len(returns),
            "updates": len(returns),
            "seconds": len(returns) / 2,
            "final_evaluation": {} if final is None else {"eval/return_mean": final},
        }
        started = f"2026-01-{seed + 1:02}T00:00:00+00:00"
        write_record(folder, record_of(started=started, summary=summary, init_from=init_from))
        return folder

    return build
