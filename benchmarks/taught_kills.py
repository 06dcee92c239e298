"""Do teachers survive? Kills runs whose environment a teacher changes at random moments, and compares how they end.

    python benchmarks/taught_kills.py                                  all runs on all runners
    python benchmarks/taught_kills.py --only "sac, alp_gmm" --runner ray

A row that is measured is written to docs/benchmarks/taught_kills.json at once, and is not measured again unless it is
asked for by --again. So a table can be continued where it stopped.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import results
from command import MAZE, one_thread

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # where the environments and the comparison are

from tests.attack.whole import checkpoints_of, differences  # noqa: E402

PAGE, RUNNERS, EPOCHS, PATIENCE = "taught_kills", ("dev", "local", "ray"), 20, 300.0
KILLS = {"dev": 2, "local": 2, "ray": 1}
"""Of each run; a start on Ray takes longest."""
HEADERS = ["run", "runner", "seconds", "unbroken", "killed in epoch", "after the kills", "gate"]
INTRODUCTION = f"""
# Killed with a teacher

Short runs of {EPOCHS} epochs whose environment a [teacher](../guide/curricula.md) changes from episode to episode: all
six teachers, on `dev`, on `local` and on a Ray of its own, the last two with 2 workers. Each run is trained once
without a break. Then it is trained again, killed (SIGKILL of the driver) at a random moment of a random epoch, and
resumed; on `dev` and `local` it is killed twice. The sizes of a corridor, its wind, or the seed of a level are the
parameters, by all ways in which an environment takes one; with several agents (`simple_spread_v3` of mpe2) it is
the number of cycles.

The gate: what is left is bit-equal to what the unbroken run on `dev` left. Compared are the checkpoints `last` and
`best` (policy, optimizer, rows of replay, unfinished episodes with their parameters, the teacher, random numbers) and
all lines of `metrics.jsonl`, without times. IMPALA's own guarantee is less on workers, whose actors begin new episodes:
there the gate is that it ends after all its epochs, and that each episode had parameters within the ranges.

Made by `python benchmarks/taught_kills.py`.
"""
CORRIDOR, HALL, SLOPE, SPREAD = (
    *(f"tests.corridors:{name}" for name in ("Corridor", "Hall", "Slope")),
    "mpe2:simple_spread_v3",
)
COMMON = {"algorithm.n_epochs": EPOCHS, "evaluation.n_episodes": 2, "callbacks.tensorboard": None, "model.hidden": [16]}
ROLLOUTS = {**COMMON, "algorithm.n_rollout_steps": 32, "algorithm.num_envs": 4, "algorithm.epoch_length": 2}
REPLAY = {
    **COMMON,
    "algorithm.num_envs": 4,
    "algorithm.initial_buffer_size": 40,
    "algorithm.batch_size": 16,
    "algorithm.epoch_length": 40,
}
ACTORS = {**COMMON, "algorithm.num_actors": 2, "algorithm.epoch_length": 4}
GRU = {"model.memory": "gru"}


def taught(name: str, parameters: dict[str, Any] | None = None, **its: Any) -> dict[str, Any]:
    """The settings of a teacher."""
    return {"callbacks.curriculum": {"teacher": {"name": name, **its}, "parameters": parameters or {}}}


LESSONS = [
    {"parameters": {"size": 2}, "metric": "train/success", "at_least": 0.2, "episodes": 20},
    {"parameters": {"size": [2, 4]}, "metric": "train/length_median", "at_most": 7, "episodes": 30},
    {"parameters": {}},
]


@dataclass(frozen=True)
class Case:
    """A run with a teacher."""

    algorithm: str
    env: str
    settings: dict[str, Any]
    exact_on: tuple[str, ...] = RUNNERS
    """The runners on which it promises to go on exactly."""

    def command(self, runner: str, run_dir: Path) -> list[str]:
        """The command that trains it."""
        workers = {} if runner == "dev" else {"runner.workers": 2}
        settings = {**self.settings, **workers}
        sets = [part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")]
        where = ["--env", self.env, "--runner", runner, "--run-dir", str(run_dir)]
        return ["train", self.algorithm, *where, "--preset", "none", "--seed", "1", *sets]


CASES = {
    "ppo, uniform": Case("ppo", CORRIDOR, {**ROLLOUTS, **taught("uniform", {"lag": [0, 5], "size": [2, 4]})}),
    "ppo, lessons": Case("ppo", CORRIDOR, {**ROLLOUTS, **taught("lessons", lessons=LESSONS)}),
    "ppo, success, gru": Case(
        "ppo", HALL, {**ROLLOUTS, **GRU, **taught("success", episodes=8, step=0.2, low=0.1, high=0.3)}
    ),
    "ppo, adr, several agents": Case(
        "ppo",
        SPREAD,
        {**ROLLOUTS, **taught("adr", {"max_cycles": [2, 9]}, metric="return", low=-100, high=-20, episodes=4)},
    ),
    "ppo, alp_gmm, several agents, gru": Case(
        "ppo", SPREAD, {**ROLLOUTS, **GRU, **taught("alp_gmm", {"max_cycles": [2, 9]}, every=20)}
    ),
    "ppo, plr, seeds": Case(
        "ppo",
        CORRIDOR,
        {**ROLLOUTS, "wrappers": ["normalize_reward"], **taught("plr", {"seed": [0, 99]}, levels=12)},
    ),
    "sac, alp_gmm": Case(
        "sac",
        SLOPE,
        {
            **REPLAY,
            "algorithm.critic_hidden": [16],
            **taught("alp_gmm", {"steepness": [-1.0, 1.0], "size": [1, 3]}, every=20),
        },
    ),
    "dqn, plr": Case(
        "dqn",
        CORRIDOR,
        {**REPLAY, "evaluation.parameters": {"size": [2, 6]}, **taught("plr", levels=12)},
    ),
    "impala, uniform": Case("impala", CORRIDOR, {**ACTORS, **taught("uniform")}, ("dev",)),
}


@dataclass
class Measured:
    """What became of a case on a runner."""

    seconds: float = 0.0
    """Of the unbroken run, from its first checkpoint to its end."""
    killed: list[float] = field(default_factory=list)
    """The epoch of each kill: its number, and the share of it that had passed."""
    unbroken: list[str] = field(default_factory=list)
    """What differs from the unbroken run on `dev`."""
    after: list[str] = field(default_factory=list)
    """What differs from it in the run that was killed."""
    faults: list[str] = field(default_factory=list)


def main() -> int:
    """Measure what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(CASES), help="this run alone; repeatable")
    parser.add_argument("--runner", action="append", choices=RUNNERS, help="on this runner alone; repeatable")
    parser.add_argument("--again", action="store_true", help="measure rows that are known once more")
    parser.add_argument("--minutes", type=float, default=1000.0, help="begin no row after so long")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default 1)")
    parser.add_argument("--runs", type=Path, default=Path("runs/taught_kills"), help="where runs go")
    options = parser.parse_args()
    asked = [(name, runner) for name in options.only or CASES for runner in options.runner or RUNNERS]
    end = time.monotonic() + 60 * options.minutes
    for name, runner in asked:
        wanted = options.again or row_of(name, runner) not in results.load(PAGE)
        if wanted and time.monotonic() < end:
            chance = random.Random(f"{options.seed} {name} {runner}")
            folder = options.runs.resolve() / name.replace(", ", "-").replace(" ", "-")
            measured = Killing(CASES[name], runner, folder, chance).measure()
            row = {**measured.__dict__, "case": name, "runner": runner, "exact": runner in CASES[name].exact_on}
            rows = results.merge(PAGE, row_of(name, runner), row)
            results.write_page(PAGE, INTRODUCTION + said_in_all(rows), HEADERS, cells_of(rows), rows)
    rows = results.load(PAGE)
    results.show("Killed with a teacher", HEADERS, cells_of(rows))
    return 0 if all(row_of(*each) in rows and passes(rows[row_of(*each)]) for each in asked) else 1


def row_of(name: str, runner: str) -> str:
    """The name of a row."""
    return f"{name}, {runner}"


class Killing:
    """Trains a case on a runner without a break, and once more with kills."""

    def __init__(self, case: Case, runner: str, folder: Path, chance: random.Random) -> None:
        self._case, self._runner, self._folder, self._chance = case, runner, folder, chance
        module, name = case.env.split(":")
        self._spaces = getattr(importlib.import_module(module), name, None)
        """Of the rows of replay; None: there are none."""
        self.told = Measured()

    def measure(self) -> Measured:
        """Return what became of it."""
        base = self._whole("dev")
        whole = self._whole(self._runner)
        self.told.seconds = seconds_of(whole)
        killed = self._fresh(f"{self._runner}-killed")
        self._torment(killed)
        if self._runner in self._case.exact_on:
            self.told.unbroken, self.told.after = self._differences(base, whole), self._differences(base, killed)
        else:
            self.told.after = beyond(killed)
        return self.told

    def _whole(self, runner: str) -> Path:
        """Return the folder of the unbroken run, which is trained if there is none that has finished."""
        run_dir = self._folder / f"{runner}-whole"
        if len(lines_of(run_dir)) != EPOCHS:
            self._run(self._case.command(runner, self._fresh(run_dir.name))).wait()
            self._ended(run_dir)
        return run_dir

    def _torment(self, run_dir: Path) -> None:
        """Train and kill, resume and kill, resume to the end."""
        command, begun = self._case.command(self._runner, run_dir), 0
        for _ in range(KILLS[self._runner]):
            epoch = self._chance.randint(begun, EPOCHS - 2)
            share = self._chance.random()
            process = self._run(command)
            self._wait(process, run_dir, epoch)
            time.sleep(share * self.told.seconds / EPOCHS)
            if process.poll() is not None:
                self.told.faults.append("it ended before the kill")
                return
            process.kill()
            process.wait()
            self.told.killed.append(round(len(lines_of(run_dir)) + share, 2))
            command, begun = ["resume", str(run_dir)], len(lines_of(run_dir))
        self._run(command).wait()
        self._ended(run_dir)

    def _run(self, command: list[str]) -> subprocess.Popen[bytes]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "log").open("w") as log:
            return subprocess.Popen([MAZE, *command], cwd=ROOT, env=one_thread(), stdout=log, stderr=log)

    def _wait(self, process: subprocess.Popen[bytes], run_dir: Path, epochs: int) -> None:
        """Wait until so many epochs are logged, and the run can be resumed."""
        deadline = time.monotonic() + PATIENCE
        while not (run_dir / "checkpoints" / "last").exists() or len(lines_of(run_dir)) < epochs:
            if process.poll() is not None or time.monotonic() > deadline:
                return
            time.sleep(0.005)

    def _ended(self, run_dir: Path) -> None:
        if len(lines_of(run_dir)) != EPOCHS:
            said = " / ".join((self._folder / "log").read_text(errors="replace").strip().splitlines()[-3:])
            self.told.faults.append(f"it ended after {len(lines_of(run_dir))} epochs: {said[-300:]}")

    def _fresh(self, name: str) -> Path:
        shutil.rmtree(self._folder / name, ignore_errors=True)
        return self._folder / name

    def _differences(self, one: Path, other: Path) -> list[str]:
        """What of a run is not as in the other, beside what a runner counts."""
        return differences(checkpoints_of(one, self._spaces), checkpoints_of(other, self._spaces))


def lines_of(run_dir: Path) -> list[dict[str, Any]]:
    """The whole lines of a run's metrics."""
    path = run_dir / "metrics.jsonl"
    whole = path.read_bytes().rpartition(b"\n")[0].splitlines() if path.exists() else []
    return [json.loads(line) for line in whole]


def seconds_of(run_dir: Path) -> float:
    """The time that a run has trained."""
    lines = lines_of(run_dir)
    return round(float(lines[-1]["seconds"]), 1) if lines else 0.0


def beyond(run_dir: Path) -> list[str]:
    """Means of parameters that a teacher cannot have given."""
    ranges = {"env/size": (2, 6), "env/wind": (0, 0.5)}
    found = []
    for line in lines_of(run_dir):
        for name, (low, high) in ranges.items():
            if not low <= line.get(name, low) <= high:
                found.append(f"{name} is {line[name]} in epoch {line['epoch']}")
    if not any(name in line for line in lines_of(run_dir) for name in ranges):
        found.append("no episode had parameters")
    return found


def passes(row: dict[str, Any]) -> bool:
    """Whether a row meets the gate."""
    return not (row["faults"] or row["unbroken"] or row["after"])


def said_in_all(rows: dict[str, Any]) -> str:
    """A sentence about all rows."""
    kills, met = sum(len(row["killed"]) for row in rows.values()), sum(map(passes, rows.values()))
    return f"\n{kills} kills in {len(rows)} rows, of which {met} meet the gate.\n"


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table: a line for each run and runner."""
    order = [row_of(name, runner) for name in CASES for runner in RUNNERS]
    return [
        [
            row["case"],
            row["runner"],
            f"{row['seconds']:.1f}",
            ("differs" if row["unbroken"] else "equal") if row["exact"] else "",
            ", ".join(f"{epoch:.2f}" for epoch in row["killed"]),
            ("differs" if row["after"] else "equal") if row["exact"] else "goes on",
            "met" if passes(row) else "missed: " + "; ".join([*row["faults"], *row["unbroken"], *row["after"]])[:200],
        ]
        for row in (rows[name] for name in order if name in rows)
    ]


if __name__ == "__main__":
    sys.exit(main())
