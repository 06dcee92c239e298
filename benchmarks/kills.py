"""Does a run survive? Kills workers, nodes, heads and the driver at random while runs train, and resumes them.

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
from processes import environ_of, leftovers_outside, processes
from statistics_of_runs import spread

from maze_core.base.errors import MazeError
from maze_core.run.saved.checkpoint import read_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE, MARK, NODES = "kills", "MAZE_KILLS", "MAZE_KILLS_NODES"
INTERRUPTED = 130
LIMIT = 15.0
"""Most seconds between the loss of a head and the end of the run."""
PATIENCE = 180.0
"""Seconds a run has to write a checkpoint before the next kill, and to end."""
UNTIL_CLEAN = 60.0
HEADERS = [
    "run",
    "minutes",
    "workers killed",
    "nodes killed",
    "raylets killed",
    "heads killed",
    "drivers killed",
    "told within, s",
    "ended",
    "resumed",
    "epochs",
    "start, s",
    "left over",
    "gate",
]
INTRODUCTION = f"""
# Kills

Runs of CartPole-v1 of which parts are killed (SIGKILL) at random: on `local`, on a Ray that the run starts itself, and
on a cluster of two nodes on one machine. Killed are: a worker; the driver; all processes of the node that is not the
head, or its raylet alone; the head, which is its server alone or all of its processes. A node is replaced, and so is a
cluster that has lost its head. On a Ray of its own a run has one raylet, so that ends the run as the head does.

A run whose driver was killed is followed by `maze resume`, and is not killed before it has written a checkpoint. So is
one that has lost its head, when it has ended ("told within": seconds until then, median (min to max)), and one that
ended with an error though neither was killed ("ended"). Workers collect rollouts or play evaluations; those that are
killed are replaced while the run goes on.

The gate: every resumed run goes on from its last checkpoint; one that loses its head ends within {LIMIT:g} seconds with
exit code 1 and the line that resumes it; the last one ends well when it is asked to; and a minute later none of its
processes, blocks of shared memory and temporary files is left.

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
    ends: tuple[str, ...]
    """Those of them that end the run."""
    share: float
    """Of the time."""
    on_cluster: bool = False


CASES = {
    "local": Case("ppo", "local", PPO, ("worker", "driver"), (), 0.2),
    "own ray": Case("ppo", "ray", PPO, ("worker", "driver", "raylet", "head"), ("raylet", "head"), 0.3),
    "cluster": Case("impala", "ray", IMPALA, ("worker", "node", "raylet", "driver", "head"), ("head",), 0.5, True),
}


@dataclass
class Told:
    """What happened to a run."""

    kills: Counter[str] = field(default_factory=Counter)
    resumed: int = 0
    told: list[float] = field(default_factory=list)
    """Seconds from each loss of a head to the end of the run."""
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
        minutes = options.minutes * CASES[name].share / sum(CASES[each].share for each in names)
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
    """Kill at random until the time is over, which begins with the first checkpoint; resume what ended."""
    run.start("train", told)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(chance.uniform(0.5, 1.5) * every, max(0.0, end - time.monotonic())))
        if time.monotonic() >= end:
            return
        kind = chance.choice(run.case.kinds)
        if run.driver.poll() is None and run.kill(kind, chance):
            told.kills[kind] += 1
            if kind in run.case.ends:
                run.await_loss(kind, told)
                kind = "driver"
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

    @property
    def _address(self) -> dict[str, str]:
        return {} if self._cluster is None else {"runner.address": self._cluster.address}

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
        environment = {**one_thread(), MARK: self.mark, NODES: "", "TMPDIR": str(self._temporary)}
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
        """Kill a part of the run; return False if there is none."""
        if self._cluster is not None and kind in ("node", "raylet"):
            self._cluster.lose_node("raylet" if kind == "raylet" else None)
            return True
        if self._cluster is not None and kind == "head":
            self._cluster.lose_head(chance)
            return True
        found = {"driver": {self.driver.pid}, "worker": self.workers()}.get(kind) or self._own_ray(kind)
        if found:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(sorted(found)), signal.SIGKILL)
        return bool(found)

    def await_loss(self, kind: str, told: Told) -> None:
        """Wait for the end of a run that has lost its head; replace the cluster."""
        began = time.monotonic()
        code = self._ended(PATIENCE)
        told.told.append(round(time.monotonic() - began, 1))
        if code != 1 or told.told[-1] > LIMIT or f"maze resume {self._run_dir}" not in self._log.read_text():
            told.faults.append(f"{kind} lost: code {code} after {told.told[-1]} s: {self.said()}")
        if self._cluster is not None:
            self._cluster.renew()

    def _own_ray(self, kind: str) -> set[int]:
        """Return the processes of a kind of the Ray that the run has started."""
        word = {"head": "gcs/gcs_server", "raylet": "raylet/raylet"}.get(kind, " ")
        return {pid for pid, (parent, words) in processes().items() if parent == self.driver.pid and word in words}

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
        return self._ended(PATIENCE)

    def _ended(self, patience: float) -> int:
        """Return the exit code of the driver; one that does not end is killed."""
        try:
            return self.driver.wait(patience)
        except subprocess.TimeoutExpired:
            self.driver.kill()
            return self.driver.wait()

    def left(self) -> list[str]:
        """Return the processes and temporary files that are left."""
        mark = f"{MARK}={self.mark}".encode()
        found = [f"process {pid}: {words[:80]}" for pid, (_, words) in processes().items() if mark in environ_of(pid)]
        found += [f"worker {pid}" for pid in self.workers()] if self._cluster is not None else []
        nodes = f"{NODES}={os.environ.get(NODES)}".encode()
        for pid, (_, words) in processes().items():
            if words.startswith("ray::Worker") and nodes in environ_of(pid):
                found.append(f"worker of a lost node: {pid}")
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
    from ray_nodes import Nodes

    nodes = Nodes(NODES, secrets.token_hex(8))
    try:
        yield nodes
    finally:
        nodes.close()


def left_of(run: Run, before: set[Path]) -> list[str]:
    """Return what is left of a run, at most a minute after its end."""
    deadline = time.monotonic() + UNTIL_CLEAN
    while True:
        left = [*run.left(), *map(str, sorted(leftovers_outside() - before))]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(1.0)


def passes(row: dict[str, Any]) -> bool:
    """Whether the run survived and left nothing."""
    return not row["faults"] and not row["left"] and row["epochs"] > 0


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table."""
    return [
        [
            f"{CASES[name].algorithm}, {name}",
            f"{row['minutes']:.1f}",
            *(str(row["kills"].get(kind, 0)) for kind in ("worker", "node", "raylet", "head", "driver")),
            spread(row["told"], ".0f") if row["told"] else "",
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
