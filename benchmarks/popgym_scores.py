"""What do memories score in POPGym, with PPO and the measure of POPGym's paper?

    pip install popgym==1.0.7                                    beside Maze
    python benchmarks/popgym_scores.py                           all environments, every memory
    python benchmarks/popgym_scores.py --only RepeatPreviousEasy --memories gru --seeds 2

Finished runs are written to docs/benchmarks/popgym.json at once, and are not trained again as long as their settings
are the same, so a table can be continued where it stopped. (The file is not called popgym.py: Python would take it for
the package.)
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

import gymnasium
import results
from popgym import envs
from popgym.wrappers import Antialias, PreviousAction

from maze_core import RunContext

PAGE, STEPS = "popgym", 5 * 65_536
MEMORIES = ("none", "gru", "linear")
ENVIRONMENTS = {
    "RepeatFirstEasy": "say the first card's suit at every step",
    "RepeatPreviousEasy": "say the suit of four cards ago",
    "AutoencodeEasy": "watch a deck of cards, then say its suits backwards",
    "CountRecallEasy": "say how often a colour was dealt",
    "PositionOnlyCartPoleEasy": "CartPole without velocities",
    "NoisyPositionOnlyCartPoleEasy": "the same, with noise on what is seen",
}
SETTINGS = {
    "algorithm.num_envs": 16,
    "algorithm.n_rollout_steps": 256,
    "algorithm.sequence_length": 64,
    "algorithm.batch_size": 1024,
    "algorithm.n_optimization_epochs": 4,
    "algorithm.epoch_length": 16,
    "model.memory_size": 128,
    "model.hidden": [128],
    "evaluation.n_episodes": 1,
}
"""Those of every run. An epoch has 65,536 steps, as in the paper."""
HEADERS = ["environment", "what to do", *MEMORIES]
RUN_HEADERS = ["run", "mean return of each epoch", "seconds", "steps/s"]
NONE = "-"
"""What stands for a run that was not made."""
INTRODUCTION = f"""
# POPGym

[POPGym](https://github.com/proroklab/popgym) (Morad et al. 2023, [2303.01859](https://arxiv.org/abs/2303.01859))
examines memories in environments that do not show everything. Its measure is the maximum over the epochs of the mean
return of an epoch's episodes (MMER), those of the training; returns are between -1 and 1. As in the paper the policy
learns with PPO and sees its last action and whether an episode begins (POPGym's wrappers `PreviousAction` and
`Antialias`), and an epoch has 65,536 steps.

The paper trains for 15,000,000 steps, these runs for {STEPS:,}. Its scores would not be comparable, so none are copied
here. `none` is PPO without memory: what a memory is worth is the difference from it. Gradients flow through at most 64
steps; only the episodes of Autoencode (103 steps) and CartPole (200) are longer. All runs have the same settings; none
was tuned for an environment. Scores are means over the seeds, with each in brackets where there are several. A dash is
a run that was not made. PositionOnlyCartPole is what the paper calls Stateless CartPole.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=ENVIRONMENTS, help="this environment only")
    parser.add_argument("--memories", nargs="+", choices=MEMORIES, default=MEMORIES, help="these only")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each, with seeds 1, 2, … (default 1)")
    parser.add_argument("--runs", type=Path, default=Path("runs/popgym"), help="where the run directories go")
    options = parser.parse_args()
    for seed in range(1, options.seeds + 1):
        for env in options.only or ENVIRONMENTS:
            for memory in options.memories:
                known = finished(env)
                runs = known["runs"].setdefault(memory, {})
                if str(seed) not in runs:
                    runs[str(seed)] = train(env, memory, seed, options.runs / f"{env}-{memory}-s{seed}")
                    print(f"{env}  {memory}  seed {seed}  {mmer(runs[str(seed)]):.3f}", flush=True)
                    write_page(results.merge(PAGE, env, known))
    rows = results.load(PAGE)
    write_page(rows)
    results.show("POPGym", HEADERS, cells_of(rows))
    return 0


def finished(env: str) -> dict[str, Any]:
    """The runs of an environment with these settings."""
    facts = {"steps": STEPS, "settings": SETTINGS}
    known: dict[str, Any] = results.load(PAGE).get(env, {})
    return known if all(known.get(name) == value for name, value in facts.items()) else {**facts, "runs": {}}


def train(env: str, memory: str, seed: int, run_dir: Path) -> dict[str, Any]:
    """Train once; the mean return of each epoch's episodes."""
    shutil.rmtree(run_dir, ignore_errors=True)  # of a benchmark that was interrupted

    def make() -> gymnasium.Env[Any, Any]:
        return Antialias(PreviousAction(getattr(envs, env)()))

    with RunContext(
        make,
        "ppo",
        callbacks={"tensorboard": None, "best_checkpoint": None},
        preset="none",
        overrides={**SETTINGS, "model.memory": memory},
        seed=seed,
        steps=STEPS,
        run_dir=run_dir,
        silent=True,
    ) as context:
        summary = context.train()
    if summary.outcome != "finished":
        raise SystemExit(f"{env} with {memory}: {summary.outcome}: {summary.reason}")
    epochs = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    returns = [each["train/return_mean"] for each in epochs if each.get("train/return_mean") is not None]
    return {"returns": returns, "seconds": summary.seconds, "steps": summary.env_steps}


def mmer(run: dict[str, Any]) -> float:
    """The maximum over the epochs of the mean return of their episodes."""
    return max((each for each in run["returns"] if math.isfinite(each)), default=math.nan)


def write_page(rows: dict[str, Any]) -> None:
    """Write the page of all runs made so far."""
    settings = ", ".join(f"`{path}={value}`" for path, value in SETTINGS.items())
    where = results.where_and_when({env: rows[env] for env in ENVIRONMENTS if env in rows})
    parts = [
        *(INTRODUCTION, results.table(HEADERS, cells_of(rows))),
        f"Settings: {settings}; everything else has Maze's defaults.",
        "Made by `python benchmarks/popgym_scores.py`; the figures of every run are in `popgym.json`.",
        results.folded("Epochs and seconds of each run", results.table(RUN_HEADERS, run_cells(rows))),
        *("## Where and when", where),
    ]
    results.write(PAGE, parts)


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table: a line for each environment."""
    return [
        [env, task, *(score(rows.get(env, {}).get("runs", {}).get(memory, {})) for memory in MEMORIES)]
        for env, task in ENVIRONMENTS.items()
    ]


def score(runs: dict[str, Any]) -> str:
    """The mean over the seeds, and each of several."""
    found = [mmer(run) for run in runs.values()]
    single = f" ({', '.join(f'{each:.2f}' for each in found)})" if len(found) > 1 else ""
    return f"{statistics.fmean(found):.2f}{single}" if found else NONE


def run_cells(rows: dict[str, Any]) -> results.Cells:
    """A line for each run."""
    return [
        [
            f"{env} {memory} seed {seed}",
            ", ".join(f"{each:.2f}" for each in run["returns"]),
            f"{run['seconds']:,.0f}",
            f"{run['steps'] / run['seconds']:,.0f}",
        ]
        for env in ENVIRONMENTS
        for memory, runs in rows.get(env, {}).get("runs", {}).items()
        for seed, run in runs.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
