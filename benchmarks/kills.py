"""Does a run survive? Kills workers, nodes and the driver at random while runs train, and resumes them.

python benchmarks/kills.py                              ten minutes, shared by all cases
python benchmarks/kills.py --minutes 1 --only local
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import results
from command import MAZE, one_thread
from statistics_of_runs import spread

from maze_core.base.errors import MazeError
from maze_core.run.saved.checkpoint import read_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE, MARK = "kills", "MAZE_KILLS"
INTERRUPTED = 130
PATIENCE = 180.0
"""Seconds a run has to write a checkpoint before the next kill, and to end."""
UNTIL_CLEAN = 60.0
SHARED_MEMORY, TEMPORARY = Path("/dev/shm"), Path("/tmp")
HEADERS = [
    "run",
    "minutes",
    "workers killed",
    "nodes killed",
    "drivers killed",
    "ended",
    "resumed",
    "epochs",
    "start, s",
    "left over",
    "gate",
]
INTRODUCTION = """
# Kills

Runs of CartPole-v1 whose workers, nodes and drivers are killed (SIGKILL) at random: on `local`, on a Ray that the run
starts itself, and on a cluster of two nodes on one machine, of which one is killed and replaced. A driver that was
killed is followed by `maze resume`, and is not killed before it has written a checkpoint. So is one that ended with an
error ("ended"). Workers collect rollouts or play evaluations; those that are killed are replaced while the run goes on.

The gate: every resumed run goes on from its last checkpoint, the last one ends well when it is asked to, and a minute
later none of its processes, blocks of shared memory and temporary files is left.

A start lasts until the next checkpoint, shown as median (min to max) of all starts; it says how busy the machine was,
and how many kills fitted in.

Made by `python benchmarks/kills.py`.
"""
COMMON = {
    "algorithm.n_epochs": 0,
    "callbacks.early_stopping.patience": 0,
    "algorithm.epoch_length": 2,
    "evaluation.n_episodes": 2,
}
PPO = {**COMMON, "algorithm.n_rollout_steps": 64, "algorithm.num_envs": 4}
IMPALA = {**COMMON, "algorithm.num_actors": 2, "algorithm.epoch_length": 20}


@dataclass(frozen=True)
class Case:
    """A run, and what is killed of it."""

    algorithm: str
    runner: str
    parameters: dict[str, Any]
    kinds: tuple[str, ...]
    on_cluster: bool = False


CASES = {
    "local": Case("ppo", "local", PPO, ("worker", "driver")),
    "own ray": Case("ppo", "ray", PPO, ("worker", "driver")),
    "cluster": Case("impala", "ray", IMPALA, ("worker", "node", "driver"), on_cluster=True),
}


@dataclass
class Told:
    """What happened to a run."""

    kills: Counter[str] = field(default_factory=Counter)
    resumed: int = 0
    ended: list[str] = field(default_factory=list)
    """What it said where it ended with an error, which a resumed run follows."""
    epochs: int = 0
    starts: list[float] = field(default_factory=list)
    """Seconds from each start to the next checkpoint."""
    faults: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def main() -> int:
    """Kill for as long as was asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(CASES), help="this case alone; repeatable")
    parser.add_argument("--minutes", type=float, default=10.0, help="in all (default 10)")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between kills, on average (default 10)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-page", action="store_true", help="print the result only")
    options = parser.parse_args()
    names = options.only or list(CASES)
    rows: dict[str, Any] = {}
    for name in names:
        minutes = options.minutes / len(names)
        told = killed(CASES[name], 60 * minutes, options.every, random.Random(f"{options.seed} {name}"))
        row = {"minutes": minutes, **told.__dict__, "kills": dict(told.kills), "case": name}
        rows[name] = row
        print(row, flush=True)
        if not options.no_page:
            rows = results.merge(PAGE, name, row)
            results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)
    results.show("Kills", HEADERS, cells_of(rows))
    return 0 if all(passes(rows[name]) for name in names) else 1


def killed(case: Case, seconds: float, every: float, chance: random.Random) -> Told:
    """Train for so many seconds, kill at random, and look at what is left."""
    told, before = Told(), leftovers_outside()
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        temporary = Path(folder, "tmp")
        temporary.mkdir()
        with cluster_of(case) as cluster:
            run = Run(case, Path(folder, "run"), temporary, cluster)
            try:
                torment(run, told, seconds, every, chance)
            finally:
                run.end(told)
                told.left = left_of(run, before)
    return told


def torment(run: Run, told: Told, seconds: float, every: float, chance: random.Random) -> None:
    """Kill at random until the time is over; resume what ended."""
    end = time.monotonic() + seconds
    run.start("train", told)
    while time.monotonic() < end:
        time.sleep(min(chance.uniform(0.5, 1.5) * every, max(0.0, end - time.monotonic())))
        if time.monotonic() >= end:
            return
        kind = chance.choice(run.case.kinds)
        if run.driver.poll() is None and run.kill(kind, chance):
            told.kills[kind] += 1
        elif run.driver.poll() is not None:
            told.ended.append(run.said())
            kind = "driver"
        if kind == "driver":
            run.driver.wait()
            run.start("resume", told)
            told.resumed += 1


class Run:
    """A run in a process of its own.

    Args:
        case: what trains.
        run_dir: its folder.
        temporary: for temporary files of all its processes.
        cluster: Ray's, of two nodes; None: there is none.
    """

    def __init__(self, case: Case, run_dir: Path, temporary: Path, cluster: Any) -> None:
        self.case, self._run_dir, self._temporary, self._cluster = case, run_dir, temporary, cluster
        self.mark = secrets.token_hex(8)
        self._log = run_dir.with_suffix(".log")
        self._address = {} if cluster is None else {"runner.address": cluster.address}

    def start(self, command: str, told: Told) -> None:
        """Start or resume the run, and wait for its next checkpoint."""
        case, before = self.case, self.epoch()
        what = [case.algorithm, "--env", "CartPole-v1", "--runner", case.runner, "--run-dir", str(self._run_dir)]
        settings = {**case.parameters, "runner.workers": 2, "runner.max_restarts": 1000, **self._address}
        if command == "resume":
            what, settings = [str(self._run_dir)], self._address
        else:
            what += ["--preset", "none", "--seed", "1"]
        arguments = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        environment = {**one_thread(), MARK: self.mark, "TMPDIR": str(self._temporary)}
        environment.pop("RAY_ADDRESS", None)
        with self._log.open("w") as log:
            self.driver = subprocess.Popen(
                [MAZE, command, *what, *arguments], env=environment, stdout=log, stderr=log, start_new_session=True
            )
        began = time.monotonic()
        deadline = began + PATIENCE
        while self.epoch() <= before:
            if self.driver.poll() is not None or time.monotonic() > deadline:
                told.faults.append(f"{command} wrote no checkpoint: {self.said()}")
                return
            time.sleep(0.2)
        told.starts.append(round(time.monotonic() - began, 1))

    def kill(self, kind: str, chance: random.Random) -> bool:
        """Kill the driver, a worker or a node; return False if there is none."""
        if kind == "node":
            node = next(node for node in self._cluster.list_all_nodes() if node is not self._cluster.head_node)
            self._cluster.remove_node(node, allow_graceful=False)
            self._cluster.add_node(num_cpus=2)
            return True
        victims = [self.driver.pid] if kind == "driver" else sorted(self.workers())
        if victims:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(victims), signal.SIGKILL)
        return bool(victims)

    def workers(self) -> set[int]:
        """Return the processes of the run's workers."""
        table = processes()
        if self.case.runner == "local":  # the children of Python's fork server, which is a child of the driver
            servers = {pid for pid, (parent, _) in table.items() if parent == self.driver.pid}
            return {pid for pid, (parent, _) in table.items() if parent in servers}
        raylets = {
            pid for pid, (parent, words) in table.items() if "raylet/raylet" in words and self._owns(parent, words)
        }
        return {pid for pid, (parent, words) in table.items() if parent in raylets and words.startswith("ray::Worker")}

    def epoch(self) -> int:
        """Return the number of epochs in the last checkpoint; -1: there is none."""
        try:
            return int(read_checkpoint(self._run_dir / "checkpoints" / "last").state["epoch"])
        except (MazeError, OSError):
            return -1

    def said(self) -> str:
        """Return the end of the run's output."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-3:])[-400:]

    def end(self, told: Told) -> None:
        """Ask the run to end; where a loss ended it first, resume it and ask again."""
        code = self._terminated()
        if code == 1:
            told.ended.append(self.said())
            self.start("resume", told)
            told.resumed += 1
            code = self._terminated()
        if code not in (0, INTERRUPTED, 128 + signal.SIGTERM):
            told.faults.append(f"ended with code {code}: {self.said()}")
        told.epochs = self.epoch()

    def _terminated(self) -> int:
        self.driver.terminate()
        try:
            return self.driver.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.driver.kill()
            return self.driver.wait()

    def left(self) -> list[str]:
        """Return the processes and temporary files that are left."""
        mark = f"{MARK}={self.mark}".encode()
        found = [f"process {pid}: {words[:80]}" for pid, (_, words) in processes().items() if mark in environ_of(pid)]
        found += [f"worker {pid}" for pid in self.workers()] if self._cluster is not None else []
        return found + [str(path) for path in self._temporary.iterdir()]

    def _owns(self, parent: int, words: str) -> bool:
        """Return True for a node of the run's Ray, by its parent and its command line."""
        return parent == self.driver.pid if self._cluster is None else self._cluster.address in words


@contextmanager
def cluster_of(case: Case) -> Iterator[Any]:
    """A cluster of two nodes where the case needs one."""
    if not case.on_cluster:
        yield None
        return
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=2)
        yield cluster
    finally:
        cluster.shutdown()


def left_of(run: Run, before: set[Path]) -> list[str]:
    """Return what is left of a run, at most a minute after its end."""
    deadline = time.monotonic() + UNTIL_CLEAN
    while True:
        left = [*run.left(), *map(str, sorted(leftovers_outside() - before))]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(1.0)


def leftovers_outside() -> set[Path]:
    """Return blocks of shared memory and folders of Ray that no living process uses."""
    candidates = {*SHARED_MEMORY.glob("psm_*"), *SHARED_MEMORY.glob("plasma*"), *TEMPORARY.glob("ray-*")}
    if not candidates:
        return set()
    used = " ".join(words for _, words in processes().values()) + " ".join(maps_of(pid) for pid in processes())
    return {path for path in candidates if path.name not in used}


def processes() -> dict[int, tuple[int, str]]:
    """Return the parent and the command line of every living process."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if state != "Z":
                found[int(folder.name)] = int(parent), words
    return found


def environ_of(pid: int) -> bytes:
    """Return the environment variables that a process was started with; empty if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def maps_of(pid: int) -> str:
    """Return the names of the files that a process has mapped; empty if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/maps").read_text(errors="replace")
    return ""


def passes(row: dict[str, Any]) -> bool:
    """Whether the run survived and left nothing."""
    return not row["faults"] and not row["left"] and row["epochs"] > 0


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table."""
    return [
        [
            f"{CASES[name].algorithm}, {name}",
            f"{row['minutes']:.1f}",
            *(str(row["kills"].get(kind, 0)) for kind in ("worker", "node", "driver")),
            str(len(row["ended"])),
            str(row["resumed"]),
            f"{row['epochs']:,}",
            spread(row["starts"], ".0f"),
            str(len(row["left"])),
            "met" if passes(row) else "missed: " + "; ".join([*row["faults"], *row["left"]])[:200],
        ]
        for name, row in rows.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
