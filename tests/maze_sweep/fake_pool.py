"""A pool that trains nothing, for tests of what a sweep makes of its runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from maze_sweep.pool import JobEnd

from maze_core.plugins.config.record import write_record
from tests.run_records import record_of


class FakePool:
    """Ends the oldest job at each look, as `outcomes` says; a finished run's return is 10 lr + seed."""

    def __init__(self, size: int = 2, outcomes: dict[str, str] | None = None) -> None:
        self.size = size
        self.outcomes = outcomes or {}
        self.started: list[str] = []
        self.running: dict[str, Any] = {}
        self.interrupted: list[str] = []
        self.most = 0

    def start(self, job: Any) -> None:
        self.started.append(job.name)
        self.classes = job.classes
        self.running[job.name] = job
        self.most = max(self.most, len(self.running))
        write_run(job, epochs=1)

    def ended(self, timeout: float) -> list[JobEnd]:
        name = next((name for name in self.running if name in self.interrupted), next(iter(self.running)))
        job = self.running.pop(name)
        outcome = self.outcomes.get(name, "interrupted" if name in self.interrupted else "finished")
        if outcome == "finished":
            write_run(job, epochs=3, outcome="finished")
        return [JobEnd(name, outcome, f"because {outcome}")]

    def interrupt(self, name: str) -> None:
        self.interrupted.append(name)

    def close(self) -> None:
        pass


def write_run(job: Any, epochs: int, outcome: str | None = None) -> None:
    folder = Path(job.run_dir)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(job.config))
    value = 10 * job.config["algorithm"]["lr"] + job.config["seed"]
    lines = [{"epoch": i, "env_steps": i, "eval/return_mean": value * i / 3} for i in range(1, epochs + 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    summary = outcome and {"outcome": outcome, "reason": "done"}
    write_record(folder, record_of(summary=summary))
