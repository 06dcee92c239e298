"""Does it learn? Trains each row with several seeds and compares the final evaluations with a gate.

    python benchmarks/learning.py                           all rows, with all seeds of their gates
    python benchmarks/learning.py --only ppo-CartPole-v1 --seeds 2 --jobs 1
    python benchmarks/learning.py --again                   also the seeds that are finished

Every seed is one `maze train` process. Its score is the deterministic evaluation of the parameters it ended with: no
best checkpoint, no maximum over the training. A finished seed is written to docs/benchmarks/learning.json at once, and
is not trained again as long as its row stays the same, so a table can be continued where it stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import curves
import published
import results
from command import MAZE, one_thread
from matches import against
from statistics_of_runs import middle_half, number, with_interval

from maze_core.plugins import discovery
from maze_core.plugins.config.presets import named_presets, package, preset_of, presets_of_package

PAGE = "learning"


@dataclass(frozen=True)
class Row:
    """One claim: `algorithm` reaches `gate` on `env` within `steps`, with the preset that ships with it.

    With `of`, the gate is so many times the mean of that row. A row without a gate is there for others.
    """

    algorithm: str
    env: str
    steps: int
    gate: float | None
    """Least mean of the seeds' final evaluations."""
    preset: str | None = None
    """None: the preset that is named like the environment, if the algorithm has one."""
    settings: tuple[str, ...] = ()
    """Further arguments of `maze train`."""
    label: str = ""
    """What distinguishes the row from others of the algorithm and environment."""
    metric: str = "eval/return_mean"
    """Of the final evaluation, or of 200 games against a random opponent: the score."""
    unit: float = 1.0
    """Of the score: 0.01 for a share in per cent."""
    seeds: int = 5
    """Runs on whose mean the gate is."""
    of: str | None = None
    """Row whose mean the gate multiplies; None: the gate is the mean itself."""

    @property
    def name(self) -> str:
        return "-".join(part for part in (self.algorithm, self.label, self.env.rpartition(":")[2]) if part)

    @property
    def is_game(self) -> bool:
        """True for games against a random opponent. Self-play has no curve: one side wins what the other loses."""
        return self.metric.startswith("games/")

    @property
    def facts(self) -> dict[str, Any]:
        """What a finished seed depends on, besides the code."""
        return {
            "steps": self.steps,
            "preset": self.preset or "as shipped",
            "preset_digest": self._preset_digest(),
            "settings": list(self.settings),
        }

    def _preset_digest(self) -> str:
        """Digest of the preset's values, not of its comments; empty if there is no preset."""
        named = self.settings[self.settings.index("--preset") + 1] if "--preset" in self.settings else self.preset
        algorithm = discovery.load("algorithm", self.algorithm)
        places = [package(algorithm), package(discovery.load("env", "pettingzoo"))]
        folders = [folder for place in places for folder in presets_of_package(place, self.algorithm)]
        found = named_presets(self.algorithm, folders).get(named or preset_of(self.env))
        if found is None:
            return ""
        return hashlib.sha256(json.dumps(found.content, sort_keys=True).encode()).hexdigest()[:12]


GRU = ("--preset", "none", "--set", "model.memory=gru", "--set", "algorithm.sequence_length=32", "--batch-size", "256")
HIDDEN = ("--wrappers", "hide", "--set")
LONG_EPOCHS = ("--epoch-length", "10000")
ZOO = ("--env-source", "pettingzoo")
ROWS = (
    Row("ppo", "CartPole-v1", 100_000, gate=475),
    Row("a2c", "CartPole-v1", 500_000, gate=475),
    Row("a2c", "MountainCarContinuous-v0", 100_000, gate=88),
    Row("es", "CartPole-v1", 500_000, gate=475),
    Row("cma_es", "CartPole-v1", 100_000, gate=475, seeds=3),
    Row("cma_es", "MountainCarContinuous-v0", 500_000, gate=90, seeds=3),
    Row("impala", "CartPole-v1", 500_000, gate=475),
    Row("appo", "CartPole-v1", 500_000, gate=475),
    Row("ppo", "Acrobot-v1", 500_000, gate=-95),
    Row("ppo", "Pendulum-v1", 200_000, gate=-250),
    Row("ppo", "LunarLander-v3", 1_000_000, gate=200),
    Row("trpo", "CartPole-v1", 100_000, gate=475),
    Row("trpo", "Pendulum-v1", 200_000, gate=-250),
    Row("pg", "CartPole-v1", 200_000, gate=475),
    Row("sac", "Pendulum-v1", 20_000, gate=-200),
    Row("sac", "CartPole-v1", 50_000, gate=475),
    Row("sac", "LunarLanderContinuous-v3", 300_000, gate=220),
    Row("ppo", "CartPole-v1", 100_000, 475, settings=(*HIDDEN, "wrappers.0.elements=[1,3]", *GRU), label="gru-hidden"),
    Row("dqn", "CartPole-v1", 50_000, gate=475),
    Row("dqn", "Acrobot-v1", 100_000, gate=-90, seeds=3),
    Row("dqn", "LunarLander-v3", 300_000, gate=220),
    Row("apex", "CartPole-v1", 50_000, gate=1.0, of="dqn-CartPole-v1", seeds=3),
    Row("apex", "LunarLander-v3", 300_000, gate=1.0, of="dqn-LunarLander-v3", seeds=3),
    Row("pqn", "CartPole-v1", 500_000, gate=475),
    Row("sac", "Pendulum-v1", 10_000, gate=-170, preset="crossq", label="crossq"),
    Row("sac", "LunarLanderContinuous-v3", 300_000, 250, "tqc-LunarLanderContinuous-v3", label="tqc", seeds=3),
    Row("sac", "HalfCheetah-v5", 100_000, gate=None, seeds=3),
    # The SAC that CrossQ is compared with has the settings of its paper. Walker2d-v5 ships with them.
    Row("sac", "HalfCheetah-v5", 100_000, gate=None, preset="paper", label="paper", seeds=3),
    Row(
        "sac",
        "HalfCheetah-v5",
        100_000,
        1.25,
        "crossq",
        LONG_EPOCHS,
        "crossq",
        seeds=3,
        of="sac-paper-HalfCheetah-v5",
    ),
    Row("sac", "Walker2d-v5", 100_000, gate=None, seeds=3),
    Row("sac", "Walker2d-v5", 100_000, 1.25, "crossq", LONG_EPOCHS, "crossq", seeds=3, of="sac-Walker2d-v5"),
    Row("td3", "Pendulum-v1", 20_000, gate=-170),
    Row("ppo", "HalfCheetah-v5", 1_000_000, gate=3500),
    Row("trpo", "HalfCheetah-v5", 1_000_000, gate=2500, seeds=3),
    Row("ppo", "Hopper-v5", 1_000_000, gate=2300),
    Row("ppo", "Walker2d-v5", 1_000_000, gate=3000),
    Row("ppo", "Ant-v5", 1_000_000, gate=1500),
    Row("ppo", "Swimmer-v5", 1_000_000, gate=100),
    Row("ppo", "InvertedDoublePendulum-v5", 1_000_000, gate=9000),
    Row("ppo", "Pendulum-v1", 200_000, -250, "gru-Pendulum-v1", (*HIDDEN, "wrappers.0.elements=[2]"), "gru-hidden"),
    # An action lasts four steps of the environment: 300,000 of them.
    Row(
        "ppo",
        "MountainCarContinuous-v0",
        75_000,
        88,
        "gru-MountainCarContinuous-v0",
        ("--wrappers", "hide,step_skip", "--set", "wrappers.0.elements=[1]"),
        "gru-hidden",
    ),
    Row(
        "ppo",
        "pettingzoo.classic:connect_four_v3",
        1_500_000,
        95,
        settings=ZOO,
        metric="games/wins",
        unit=0.01,
    ),
    Row(
        "ppo",
        "pettingzoo.classic:tictactoe_v3",
        1_000_000,
        100,
        settings=ZOO,
        metric="games/unbeaten",
        unit=0.01,
    ),
    Row(
        "alphazero",
        "pettingzoo.classic:tictactoe_v3",
        20_000,
        100,
        settings=ZOO,
        metric="games/unbeaten",
        unit=0.01,
        seeds=3,
    ),
    Row(
        "alphazero",
        "pettingzoo.classic:connect_four_v3",
        60_000,
        99,
        settings=ZOO,
        metric="games/wins",
        unit=0.01,
        seeds=3,
    ),
    # The mean return of an agent; random actions have -27.
    Row("ppo", "mpe2:simple_spread_v3", 1_000_000, -15, settings=ZOO),
    Row("vdn", "mpe2:simple_spread_v3", 1_000_000, 1, settings=ZOO, of="ppo-simple_spread_v3", seeds=3),
    Row("qmix", "mpe2:simple_spread_v3", 1_000_000, 1, settings=ZOO, of="ppo-simple_spread_v3", seeds=3),
    # Needs gymnasium-robotics: docs/environments/robotics.md says how to install it.
    Row(
        "sac",
        "gymnasium_robotics:FetchReach-v4",
        8_000,
        gate=95,
        label="her",
        metric="eval/success",
        unit=0.01,
        seeds=3,
    ),
)

INTRODUCTION = """
# Learning

What each algorithm reaches with the preset that ships, over several seeds: curves, [scores](#scores), and
[beside published scores](#beside-published-scores) of others. Made by `python benchmarks/learning.py`; the figures of
every run are in `learning.json`, its evaluations in `learning_curves.json`.

## Curves

The median over the seeds of the deterministic evaluations during training, and the band from the least to the best
seed. Rows that were measured before curves were kept have none.
"""
SCORES = """
## Scores

A score is the deterministic evaluation of the parameters a run ended with: no best checkpoint, no maximum over the
training. Where environments have goals, it is the share of successful episodes in per cent; in games of two the share
of 200 games against a random opponent that are won (connect_four) or not lost (tictactoe). The mean has its 95 %
confidence interval (Student's t), the mean of the middle half (IQM) that of the bootstrap, as in
[Agarwal et al. 2021](https://arxiv.org/abs/2108.13264); with so few seeds both say little. The gate is on the mean.
"""
DETAILS = """
Seconds and environment steps per second are those of a whole run, evaluations and logs counted, with the given number
of runs side by side. Some long runs shared the machine with other work, or were paused: to compare speed, see
[Speed](speed.md).
"""
HEADERS = ["row", "steps", "mean return (95 % CI)", "IQM (95 % CI)", "gate"]
SEED_HEADERS = ["row", "scores by seed", "seconds", "env steps/s", "side by side"]
PUBLISHED_HEADERS = ["row", "steps", "maze", "published", "steps", "of", "by", "protocol"]


def main() -> int:
    options = parse_options()
    chosen = [row for row in ROWS if not options.only or row.name in options.only]
    missed = sum(not passes(measure(row, options)) for row in chosen)
    results.show("Learning", HEADERS, cells_of(results.load(PAGE)))
    return 1 if missed else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[row.name for row in ROWS], help="train this row only")
    parser.add_argument("--seeds", type=int, help="runs of each row, with seeds 1, 2, … (default: as many as its gate)")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (default 2)")
    parser.add_argument("--again", action="store_true", help="train finished seeds again")
    parser.add_argument("--runs", type=Path, default=Path("runs/learning"), help="where the run directories go")
    return parser.parse_args()


def measure(row: Row, options: argparse.Namespace) -> dict[str, Any]:
    """Train the seeds of a row that are not finished; each is written down at once."""
    known = results.load(PAGE).get(row.name, {})
    same = all(known.get(name, []) == value for name, value in row.facts.items()) and not options.again
    finished = {run["seed"]: run for run in known.get("runs", []) if same and run["score"] is not None}
    missing = [seed for seed in range(1, (options.seeds or row.seeds) + 1) if seed not in finished]
    folder = options.runs / row.name / time.strftime("%Y%m%d-%H%M%S")
    side_by_side = max(min(options.jobs, len(missing)), 1) if missing else known.get("side_by_side", 1)
    facts = {**row.facts, "gate": row.gate, "of": row.of, "side_by_side": side_by_side}

    def written() -> dict[str, Any]:
        result = {**facts, "runs": [finished[seed] for seed in sorted(finished)]}
        write_page(results.merge(PAGE, row.name, result))
        return result

    pool = ThreadPoolExecutor(options.jobs)
    try:
        waiting = [pool.submit(train, row, seed, folder / f"s{seed}") for seed in missing]
        for done in as_completed(waiting):
            run = done.result()
            finished[run["seed"]] = run
            if run["score"] is not None and not row.is_game:
                curves.keep(row.name, run["seed"], curves.evaluations(folder / f"s{run['seed']}"))
            written()
    finally:
        # Ctrl-C: without this the pool would first train the seeds that wait.
        pool.shutdown(cancel_futures=True)
    return written()


def train(row: Row, seed: int, run_dir: Path) -> dict[str, Any]:
    """Train one seed in a process of its own; a run that fails has the score None and says why on the screen."""
    command = [str(MAZE), "train", row.algorithm, "--env", row.env, "--steps", str(row.steps), "--seed", str(seed)]
    command += ["--run-dir", str(run_dir), *(["--preset", row.preset] if row.preset else []), *row.settings]
    finished = subprocess.run(command, capture_output=True, text=True, env=one_thread(), check=False)
    if finished.returncode:
        print(f"{' '.join(command)} failed:\n{finished.stdout[-2000:]}\n{finished.stderr[-2000:]}", flush=True)
        return {"seed": seed, "score": None, "exit_code": finished.returncode}
    summary = json.loads((run_dir / "run.json").read_text())["summary"]
    figures = against(run_dir) if row.is_game else summary["final_evaluation"]
    result = {
        "seed": seed,
        "score": figures[row.metric] / row.unit,
        "episodes": figures["eval/episodes"],
        **{name: summary[name] for name in ("env_steps", "updates", "seconds", "outcome", "reason")},
    }
    print(f"{row.name}  seed {seed}  {result['score']:.1f}  in {result['seconds']:.0f} s", flush=True)
    return result


def scores(result: dict[str, Any]) -> list[float]:
    return [run["score"] for run in result["runs"] if run["score"] is not None]


def passes(result: dict[str, Any]) -> bool:
    """Whether every seed finished and their mean reaches the gate."""
    found = scores(result)
    return len(found) == len(result["runs"]) > 0 and statistics.fmean(found) >= least(result)


def least(result: dict[str, Any]) -> float:
    """The mean that meets the gate: any where there is none, and none before the row that it multiplies is measured."""
    gate, of = result["gate"], result.get("of")
    if gate is None:
        return -math.inf
    if of is None:
        return float(gate)
    other = scores(results.load(PAGE).get(of, {"runs": []}))
    return gate * statistics.fmean(other) if other else math.inf


def verdict(name: str, result: dict[str, Any]) -> str:
    """The gate, and whether it is met, or how many of the runs are done on whose means it is."""
    if result["gate"] is None:
        return "none"
    of = result.get("of")
    gate = f"≥ {result['gate']:,g}" + (f" times {of}" if of else "")
    measured = {name: result, **({of: results.load(PAGE).get(of, {"runs": []})} if of else {})}
    for each, found in measured.items():
        wanted, done = next((row.seeds for row in ROWS if row.name == each), 1), len(found["runs"])
        if done < wanted:
            return f"{gate}: open, {done} of {wanted} seeds" + (f" of {each}" if each != name else "")
    return f"{gate}: {'met' if passes(result) else 'missed'}"


def write_page(rows: dict[str, Any]) -> None:
    """Write the page of all rows measured so far: curves, scores, and folded away what belongs to single seeds."""
    ordered = in_order(rows)
    pictures = curves.pictures(rows, {row.name: row.env for row in ROWS})
    by_seed = results.table(SEED_HEADERS, [seeds_of(name, rows[name]) for name in ordered])
    others = [beside(name, rows[name], other) for name, other in published.SCORES.items() if name in rows]
    where = [f"- {name}: {results.where(rows[name])}" for name in ordered]
    parts = [
        *(INTRODUCTION, *pictures, SCORES, results.table(HEADERS, cells_of(rows))),
        results.folded("Scores by seed, seconds, speed", f"{DETAILS.strip()}\n\n{by_seed}"),
        *("## Beside published scores", results.table(PUBLISHED_HEADERS, others)),
        results.folded("Where and when each row was measured", "\n".join(where)),
    ]
    results.write(PAGE, parts)


def beside(name: str, result: dict[str, Any], other: published.Score) -> list[str]:
    """The table line of a row with somebody else's score."""
    ours = [name, f"{result['steps']:,}", with_interval(scores(result))]
    theirs = [number(other.mean), f"{other.steps:,}", f"{other.algorithm}, {other.env}", other.by, other.protocol]
    return ours + theirs


def in_order(rows: dict[str, Any]) -> list[str]:
    """The rows measured so far in the order of ROWS."""
    known = [row.name for row in ROWS]
    return sorted(rows, key=lambda name: known.index(name) if name in known else len(known))


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table of all rows measured so far."""
    return [line_of(name, rows[name]) for name in in_order(rows)]


def line_of(name: str, result: dict[str, Any]) -> list[str]:
    """The table line of one row."""
    found = scores(result)
    return [name, f"{result['steps']:,}", with_interval(found), middle_half(found), verdict(name, result)]


def seeds_of(name: str, result: dict[str, Any]) -> list[str]:
    """The line of one row in the table of its seeds."""
    done = [run for run in result["runs"] if run["score"] is not None]
    seconds = statistics.fmean(run["seconds"] for run in done) if done else math.nan
    rate = statistics.fmean(run["env_steps"] / run["seconds"] for run in done) if done else math.nan
    single = ", ".join("failed" if run["score"] is None else number(run["score"]) for run in result["runs"])
    return [name, single, f"{seconds:,.0f}", f"{rate:,.0f}", str(result["side_by_side"])]


if __name__ == "__main__":
    sys.exit(main())
