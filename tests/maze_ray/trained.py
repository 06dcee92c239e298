"""A run in a process of its own, on a cluster or a Ray of its own, for tests that kill parts of both."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

from maze_core.base.errors import MazeError
from maze_core.run.saved.checkpoint import read_checkpoint

SETTINGS = {
    "algorithm.n_epochs": 0,
    "algorithm.num_actors": 2,
    "algorithm.n_rollout_steps": 50,
    "algorithm.epoch_length": 10,
    "callbacks.early_stopping.patience": 0,
    "callbacks.tensorboard": "null",
    "evaluation.n_episodes": 2,
}
MARK = "MAZE_TEST_RUN"


class TrainedRun:
    """`maze train impala`, from its first checkpoint on."""

    def __init__(self, folder: Path, address: str | None, *command: str) -> None:
        self.run_dir, self._log = folder / "run", folder / "log"
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self.mark = f"{MARK}={secrets.token_hex(8)}"
        where = {} if address is None else {"runner.address": address}
        what = command or ("train", "impala", "--env", "CartPole-v1", "--runner", "ray", "--run-dir", str(self.run_dir))
        settings = where if command else {**SETTINGS, **where}
        before = self.epoch()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(self.temporary)}
        environment.update([self.mark.split("=")])
        environment.pop("RAY_ADDRESS", None)
        with self._log.open("w") as log:
            self.driver = subprocess.Popen(
                [
                    str(Path(sys.executable).with_name("maze")),
                    *what,
                    *(f"--set={key}={settings[key]}" for key in settings),
                ],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.wait_for_epoch(before + 1, 120)

    def epoch(self) -> int:
        """The finished epochs of the last checkpoint; -1: there is none."""
        try:
            return int(read_checkpoint(self.run_dir / "checkpoints" / "last").state["epoch"])
        except (MazeError, OSError):
            return -1

    def wait_for_epoch(self, epoch: int, patience: float) -> None:
        """Return when the checkpoint has so many epochs."""
        deadline = time.monotonic() + patience
        while self.epoch() < epoch:
            assert self.driver.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.1)

    def said(self) -> str:
        """All of its output."""
        return self._log.read_text(errors="replace")

    def workers(self) -> list[int]:
        """The processes of its workers below this process's cluster, or its own Ray."""
        return [pid for pid, words in processes() if words.startswith("ray::Worker")]

    def left(self) -> list[str]:
        """Its processes, workers and temporary files that are still there."""
        found = [words for pid, words in processes() if self.mark.encode() in _read(f"/proc/{pid}/environ")]
        return found + [f"worker {pid}" for pid in self.workers()] + [str(path) for path in self.temporary.iterdir()]

    def wait_until_clean(self, patience: float) -> None:
        """Return when nothing of it is left."""
        deadline = time.monotonic() + patience
        while left := self.left():
            assert time.monotonic() < deadline, left
            time.sleep(0.2)

    def outcome(self) -> str:
        """How it ended, as recorded."""
        return str(json.loads((self.run_dir / "run.json").read_text())["summary"]["outcome"])


def processes() -> list[tuple[int, str]]:
    """The process ids and command lines of all living processes."""
    numbers = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    found = [(pid, _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")) for pid in numbers]
    return [(pid, words) for pid, words in found if words]


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
