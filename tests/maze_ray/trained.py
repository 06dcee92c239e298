"""A run in a process of its own, on a cluster or a Ray of its own, for tests that kill parts of both."""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from pathlib import Path
from typing import Any

from maze_core.base.errors import MazeError
from maze_core.run.saved.checkpoint import read_checkpoint
from tests.forked import Forked

SETTINGS = {
    "algorithm.n_epochs": 0,
    "algorithm.n_rollout_steps": 50,
    "algorithm.epoch_length": 2,
    "callbacks.early_stopping.patience": 0,
    "callbacks.tensorboard": "null",
    "evaluation.n_episodes": 2,
    "evaluation.num_envs": 1,
}
IMPALA = {"algorithm.num_actors": 2}
ROOT = Path(__file__).parents[2]
DRIVER = """
import os, sys, tempfile

log = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_APPEND)
for number in (1, 2):
    os.dup2(log, number)
os.setsid()
tempfile.tempdir = None  # the server's
from maze_core.cli.main import main
main()
"""
"""The command line, in a session of its own, which writes to a file."""
MARK, CLUSTER = "MAZE_TEST_RUN", "MAZE_TEST_CLUSTER"
"""Variables by which processes are known, since others may use Ray on this machine: of a run, and of a cluster."""


class TrainedRun:
    """`maze train` or `maze resume`, from its next checkpoint on."""

    def __init__(
        self,
        folder: Path,
        address: str | None,
        algorithm: str = "impala",
        changes: dict[str, Any] = IMPALA,
        env: str = "tests.maze_ray.unhurried:Unhurried-v0",
        *,
        resume: bool = False,
    ) -> None:
        self.run_dir, self._log = folder / "run", folder / "log"
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self._cluster = os.environ[CLUSTER] if address is not None else "none"
        self.mark = f"{MARK}={secrets.token_hex(8)}"
        where = {} if address is None else {"runner.address": address}
        what, settings = ("resume", str(self.run_dir)), where
        if not resume:
            what = ("train", algorithm, "--env", env, "--runner", "ray", "--run-dir", str(self.run_dir))
            settings = {**SETTINGS, **changes, **where}
        before = self.epoch()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(self.temporary), "PYTHONPATH": str(ROOT)}
        environment.update([self.mark.split("=")])
        for name in ("RAY_ADDRESS", CLUSTER):
            environment.pop(name, None)
        self._log.write_text("")
        words = [self._log, *what, *(f"--set={key}={settings[key]}" for key in settings)]
        self.driver = Forked(words, ROOT, environment, DRIVER, whole=True)
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

    def processes(self) -> list[int]:
        """Its own processes, and those that they have started."""
        name, value = self.mark.split("=")
        driver = [self.driver.pid] if self.driver.poll() is None else []  # forked, so it has another's first variables
        return driver + [pid for pid in all_processes() if environment_of(pid).get(name) == value]

    def workers(self) -> list[int]:
        """The processes of its workers on the cluster of the tests, or on its own Ray."""
        return self._workers("ray::Worker")

    def wait_for_workers(self, count: int, patience: float = 60.0) -> None:
        """Return when so many workers are set up."""
        deadline = time.monotonic() + patience
        while len(self._workers(r"ray::Worker(?!\.setup|\.__init__)")) < count:
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.1)

    def _workers(self, wanted: str) -> list[int]:
        mine = [pid for pid in all_processes() if environment_of(pid).get(CLUSTER) == self._cluster]
        return [pid for pid in {*mine, *self.processes()} if re.match(wanted, command_of(pid))]

    def left(self) -> list[str]:
        """Its processes, workers and temporary files that are still there."""
        found = [command_of(pid) for pid in self.processes()] + [f"worker {pid}" for pid in self.workers()]
        return [*filter(None, found), *map(str, self.temporary.iterdir())]

    def wait_until_clean(self, patience: float) -> None:
        """Return when nothing of it is left."""
        deadline = time.monotonic() + patience
        while left := self.left():
            assert time.monotonic() < deadline, left
            time.sleep(0.2)

    def outcome(self) -> str:
        """How it ended, as recorded."""
        return str(json.loads((self.run_dir / "run.json").read_text())["summary"]["outcome"])


def all_processes() -> list[int]:
    """All living processes."""
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def command_of(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    return _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")


def environment_of(pid: int) -> dict[str, str]:
    """The variables that a process was started with; empty if it has ended."""
    pairs = (pair.partition("=") for pair in _read(pid, "environ").decode(errors="replace").split("\0"))
    return {name: value for name, _, value in pairs}


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
