"""How long until it is learned? Seconds from typing a command to the first evaluation at a score, beside a peer.

    python benchmarks/time_to_score.py                      all rows, 5 pairs; makes .venv-bench for the peer first
    python benchmarks/time_to_score.py --only ppo-CartPole-v1 --pairs 1
    python benchmarks/time_to_score.py --again              also the pairs that are measured

Both frameworks run in turn, each as a process of its own that is ended when it has reached the score, and each ratio
is of two neighbouring runs with the same seed. A finished pair is written to docs/benchmarks/time_to_score.json at
once and is not measured again as long as its row stays the same, so a table can be continued where it stopped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import results
from command import MAZE, one_thread
from speed import HERE, prepare_venv
from statistics_of_runs import spread

PAGE = "time_to_score"
SB3, SBX = "stable-baselines3", "SBX, by JAX"
SCRIPTS = {SB3: "sb3_time_to_score.py", SBX: "sbx_time_to_score.py"}
"""What makes a peer learn, below benchmarks/peers/."""
EPISODES = 10
"""Deterministic episodes of an evaluation."""
GLANCE = 0.01
"""Seconds between two looks at a run's metrics."""


@dataclass(frozen=True)
class Row:
    """One task: `algorithm` is to reach `score` on `env`; Maze with its preset, the peer with the zoo's settings."""

    algorithm: str
    env: str
    score: float
    gate: float
    """Largest ratio of the seconds, ours to the peer's."""
    epoch_length: int
    """Updates of Maze between two evaluations."""
    interval: int
    """The same in environment steps, for both."""
    steps: int
    """Environment steps after which the peer gives up."""
    num_envs: int = 1
    """The peer's environments side by side."""
    normalize: bool = False
    """Whether the peer normalises observations and rewards."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """The peer's other parameters."""
    peer: str = SB3

    @property
    def name(self) -> str:
        return f"{self.algorithm}-{self.env}" + ("-sbx" if self.peer == SBX else "")


HALF_CHEETAH: dict[str, Any] = {"score": 2_000, "epoch_length": 5_000, "interval": 5_000, "steps": 1_000_000}
TD3 = {
    "learning_starts": 10_000,
    "noise": 0.1,
    "learning_rate": 0.001,
    "batch_size": 256,
    "policy_kwargs": {"net_arch": [400, 300]},
}
ROWS = (
    Row(
        "ppo",
        "CartPole-v1",
        score=475,
        gate=0.25,
        epoch_length=10,
        interval=4_000,
        steps=100_000,
        num_envs=8,
        parameters={
            "n_steps": 32,
            "batch_size": 256,
            "gae_lambda": 0.8,
            "gamma": 0.98,
            "n_epochs": 20,
            "ent_coef": 0.0,
            "learning_rate": "linear 0.001",
            "clip_range": "linear 0.2",
        },
    ),
    Row(
        "ppo",
        "Acrobot-v1",
        score=-100,
        gate=0.25,
        epoch_length=10,
        interval=10_240,
        steps=1_000_000,
        num_envs=16,
        normalize=True,
        parameters={"n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99, "n_epochs": 4, "ent_coef": 0.0},
    ),
    Row(
        "ppo",
        "LunarLander-v3",
        score=200,
        gate=0.25,
        epoch_length=3,
        interval=24_576,
        steps=1_000_000,
        num_envs=16,
        parameters={
            "n_steps": 1024,
            "batch_size": 64,
            "gae_lambda": 0.98,
            "gamma": 0.999,
            "n_epochs": 4,
            "ent_coef": 0.01,
        },
    ),
    Row(
        "ppo",
        "Pendulum-v1",
        score=-200,
        gate=0.5,
        epoch_length=5,
        interval=10_240,
        steps=100_000,
        num_envs=4,
        parameters={
            "n_steps": 1024,
            "gae_lambda": 0.95,
            "gamma": 0.9,
            "n_epochs": 10,
            "ent_coef": 0.0,
            "learning_rate": 0.001,
            "clip_range": 0.2,
            "use_sde": True,
            "sde_sample_freq": 4,
        },
    ),
    Row(
        "sac",
        "Pendulum-v1",
        score=-200,
        gate=0.5,
        epoch_length=500,
        interval=500,
        steps=20_000,
        parameters={"learning_rate": 0.001},
    ),
    Row(
        "ppo",
        "HalfCheetah-v5",
        score=2_000,
        gate=0.5,
        epoch_length=20,
        interval=20_480,
        steps=1_000_000,
        normalize=True,
        parameters={
            "batch_size": 64,
            "n_steps": 512,
            "gamma": 0.98,
            "learning_rate": 2.0633e-05,
            "ent_coef": 0.000401762,
            "clip_range": 0.1,
            "n_epochs": 20,
            "gae_lambda": 0.92,
            "max_grad_norm": 0.8,
            "vf_coef": 0.58096,
            "policy_kwargs": {
                "log_std_init": -2,
                "ortho_init": False,
                "activation_fn": "relu",
                "net_arch": {"pi": [256, 256], "vf": [256, 256]},
            },
        },
    ),
    Row(
        "sac",
        "HalfCheetah-v5",
        gate=0.25,
        **HALF_CHEETAH,
        parameters={"learning_starts": 10_000},
    ),
    Row(
        "sac",
        "HalfCheetah-v5",
        gate=0.7,
        **HALF_CHEETAH,
        parameters={"learning_starts": 10_000},
        peer=SBX,
    ),
    Row("td3", "HalfCheetah-v5", gate=0.25, **HALF_CHEETAH, parameters=TD3),
    Row("td3", "HalfCheetah-v5", gate=0.7, **HALF_CHEETAH, parameters=TD3, peer=SBX),
)

INTRODUCTION = f"""
# Time to score

Seconds from typing the command to the first evaluation at the score. They include the start of the process, all imports
and every evaluation. Both frameworks evaluate after the same number of environment steps, {EPISODES} deterministic
episodes each, and the score is their mean return. Maze runs as `maze train ALGORITHM --env ENVIRONMENT`, with the
preset that ships for the environment. Its peers, [Stable-Baselines3](https://github.com/DLR-RM/stable-baselines3) and
[SBX](https://github.com/araffin/sbx), which compiles its updates with JAX, have the hyper-parameters that
[RL Baselines3 Zoo](https://github.com/DLR-RM/rl-baselines3-zoo) lists for the environment, or for its earlier version.

Both run in turn, as processes of their own with one thread, and each ratio is of two neighbouring runs with the same
seed, because the speed of a machine drifts. Shown is the median (min to max) over the pairs. A run that ends below the
score counts with its whole time, marked `>`: the ratio is then a bound.

The gate of Acrobot-v1 is out of reach: the peer often has the score at its second evaluation, and a quarter of its time
is about what Python needs to import torch and gymnasium.

The second pair of LunarLander-v3, and those of TD3 on HalfCheetah-v5, shared the machine with other work on its second
core: all took longer, both frameworks alike. SBX runs on one core. The time in which it and Maze compile their updates
is counted; Maze compiles on the second core, beside the training.

Made by `python benchmarks/time_to_score.py`; the figures of every run are in `time_to_score.json`.
"""
HEADERS = [
    "row",
    "peer",
    "score",
    "interval",
    "maze, s",
    "peer, s",
    "maze ÷ peer",
    "gate",
    "maze, steps",
    "peer, steps",
    "pairs",
]


def main() -> int:
    options = parse_options()
    chosen = [row for row in ROWS if not options.only or row.name in options.only]
    peer_python = options.peer_python or prepare_venv()
    missed = sum(not passes(measure(row, options, peer_python)) for row in chosen)
    results.show("Time to score", HEADERS, cells_of(results.load(PAGE)))
    return 1 if missed else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[row.name for row in ROWS], help="measure this row only")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs, with seeds 1, 2, … (default 5)")
    parser.add_argument("--again", action="store_true", help="measure finished pairs again")
    parser.add_argument("--peer-python", type=Path, help="python of an environment that has the peer")
    parser.add_argument("--runs", type=Path, default=Path("runs/time_to_score"), help="where the run directories go")
    return parser.parse_args()


def measure(row: Row, options: argparse.Namespace, peer_python: Path) -> dict[str, Any]:
    """Measure the pairs of a row that are missing; each is written down at once."""
    facts = {**asdict(row), "episodes": EPISODES}
    known = results.load(PAGE).get(row.name, {})
    same = known.get("settings") == facts and not options.again
    pairs = {pair["seed"]: pair for pair in known.get("pairs", []) if same}
    folder = options.runs / row.name / time.strftime("%Y%m%d-%H%M%S")
    for seed in range(1, options.pairs + 1):
        if seed in pairs:
            continue
        ours = first_at(row.score, *maze(row, seed, folder / f"s{seed}"))
        theirs = first_at(row.score, *peer(row, seed, peer_python))
        pairs[seed] = {"seed": seed, "maze": ours, "peer": theirs}
        print(f"{row.name}  seed {seed}  maze {told(ours)} s  {row.peer} {told(theirs)} s", flush=True)
        result = {"settings": facts, "pairs": [pairs[number] for number in sorted(pairs)]}
        write_page(results.merge(PAGE, row.name, result))
    measured: dict[str, Any] = results.load(PAGE)[row.name]
    return measured


Evaluations = Iterator[dict[str, float]]
"""`env_steps` and `score` of each evaluation, when it is done."""


def first_at(score: float, process: subprocess.Popen[str], started: float, evaluations: Evaluations) -> dict[str, Any]:
    """Wait for an evaluation at the score, or for the end of the run. Ends the process."""
    found: dict[str, Any] = {"env_steps": 0, "score": None}
    try:
        for evaluation in evaluations:
            found = evaluation
            if evaluation["score"] >= score:
                break
        seconds = time.perf_counter() - started
    finally:
        process.kill()
        _, errors = process.communicate()
    if found["score"] is None:
        sys.exit(f"A run ended before its first evaluation:\n{errors[-2000:]}")
    return {**found, "seconds": seconds, "reached": found["score"] >= score}


def maze(row: Row, seed: int, run_dir: Path) -> tuple[subprocess.Popen[str], float, Evaluations]:
    command = [str(MAZE), "train", row.algorithm, "--env", row.env, "--seed", str(seed), "--run-dir", str(run_dir)]
    command += ["--epoch-length", str(row.epoch_length), "--set", f"evaluation.n_episodes={EPISODES}"]
    process, started = start([*command, "--quiet"])
    return process, started, epochs(process, run_dir / "metrics.jsonl")


def epochs(process: subprocess.Popen[str], metrics: Path) -> Evaluations:
    """The evaluations of a run, read from the file that it writes."""
    seen = 0
    while True:
        over = process.poll() is not None
        lines = metrics.read_text().split("\n")[:-1] if metrics.exists() else []
        for line in lines[seen:]:
            epoch = json.loads(line)
            yield {"env_steps": epoch["env_steps"], "score": epoch["eval/return_mean"]}
        seen = len(lines)
        if over:
            return
        time.sleep(GLANCE)


def peer(row: Row, seed: int, python: Path) -> tuple[subprocess.Popen[str], float, Evaluations]:
    names = ("algorithm", "env", "interval", "steps", "num_envs", "normalize", "parameters")
    settings = {**{name: getattr(row, name) for name in names}, "seed": seed, "episodes": EPISODES}
    process, started = start([str(python), str(HERE / "peers" / SCRIPTS[row.peer]), json.dumps(settings)])
    assert process.stdout is not None
    return process, started, map(json.loads, process.stdout)


def start(command: list[str]) -> tuple[subprocess.Popen[str], float]:
    """Start a process. Returns it, and when that was."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=one_thread())
    return process, started


def ratios(result: dict[str, Any]) -> list[float]:
    """Our seconds divided by the peer's, pair by pair; infinite where ours did not reach the score."""
    return [
        pair["maze"]["seconds"] / pair["peer"]["seconds"] if pair["maze"]["reached"] else float("inf")
        for pair in result["pairs"]
    ]


def passes(result: dict[str, Any]) -> bool:
    """Whether the median ratio is at most the gate."""
    found = sorted(ratios(result))
    return bool(found) and found[len(found) // 2] <= result["settings"]["gate"]


def told(run: dict[str, Any]) -> str:
    return f"{'' if run['reached'] else '>'}{run['seconds']:.1f}"


def write_page(rows: dict[str, Any]) -> None:
    results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table of all rows measured so far, in the order of ROWS."""
    return [line_of(row.name, rows[row.name]) for row in ROWS if row.name in rows]


def line_of(name: str, result: dict[str, Any]) -> list[str]:
    settings, pairs = result["settings"], result["pairs"]
    ours, theirs = ([pair[contender] for pair in pairs] for contender in ("maze", "peer"))

    def cell(runs: list[dict[str, Any]], what: str, digits: str) -> str:
        bound = "" if all(run["reached"] for run in runs) else "> "
        return bound + spread([run[what] for run in runs], digits)

    return [
        name,
        settings["peer"],
        f"{settings['score']:,}",
        f"{settings['interval']:,}",
        cell(ours, "seconds", ".1f"),
        cell(theirs, "seconds", ".1f"),
        spread(ratios(result), ".2f"),
        f"≤ {settings['gate']:g}: {'met' if passes(result) else 'missed'}",
        cell(ours, "env_steps", ",.0f"),
        cell(theirs, "env_steps", ",.0f"),
        str(len(pairs)),
    ]


if __name__ == "__main__":
    sys.exit(main())
