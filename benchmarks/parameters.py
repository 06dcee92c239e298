"""Which parameters matter? Trains a preset, and the same with one parameter changed, with three seeds each.

    python benchmarks/parameters.py                         all tasks; what is measured is not trained again
    python benchmarks/parameters.py --only dqn-CartPole-v1 --minutes 5
    python benchmarks/parameters.py --page                  write the page and the picture from the figures

A score is the mean of the deterministic evaluations over the training, at even steps: how soon a run learns counts as
much as where it ends. Runs are short, one after another. Each is written to docs/benchmarks/parameters.json at once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import curves
import numpy as np
import results

from maze_core import RunContext

PAGE = "parameters"
SEEDS = (1, 2, 3)
PICTURE = results.FOLDER / "parameters.svg"
Settings = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """An algorithm on an environment with its preset, and what is changed: values by parameter, one at a time."""

    algorithm: str
    env: str
    steps: int
    epoch: int
    """Environment steps between two evaluations, as near as whole updates allow."""
    rows: int
    """Environment steps of an update of the preset."""
    random: float
    """Mean return of random actions, with which a curve begins."""
    changes: dict[str, tuple[Any, ...]]

    @property
    def name(self) -> str:
        return f"{self.algorithm}-{self.env}"

    def variants(self) -> Iterator[tuple[str, Settings]]:
        """The preset, and every change of one parameter."""
        yield "preset", {}
        for path, values in self.changes.items():
            for value in values:
                yield f"{path.rpartition('.')[2]}={json.dumps(value)}", {path: value}


PPO: dict[str, tuple[Any, ...]] = {
    "algorithm.n_optimization_epochs": (1, 30),
    "algorithm.clip_range": (0.05, 0.5),
    "algorithm.entropy_coef": (0.05,),
    "model.hidden": ([16, 16],),
}
TASKS = (
    Task(
        "ppo",
        "CartPole-v1",
        steps=20_000,
        epoch=2_000,
        rows=400,
        random=22,
        changes={
            "algorithm.lr": (3e-4, 3e-2),
            "algorithm.n_rollout_steps": (10, 250),
            "algorithm.batch_size": (40, 400),
            "algorithm.gamma": (0.9, 0.999),
            "algorithm.gae_lambda": (0.0, 0.95),
            "algorithm.normalize_advantages": (True,),
            "model.normalize_observations": (True,),
            **PPO,
        },
    ),
    Task(
        "ppo",
        "Pendulum-v1",
        steps=41_000,
        epoch=4_096,
        rows=2_048,
        random=-1_200,
        changes={
            "algorithm.lr": (2e-4, 2e-2),
            "algorithm.n_rollout_steps": (32,),
            "algorithm.batch_size": (1_024,),
            "algorithm.gamma": (0.8, 0.99),
            "algorithm.gae_lambda": (0.0, 1.0),
            "algorithm.normalize_advantages": (False,),
            "algorithm.normalize_rewards": (True,),
            "model.normalize_observations": (False,),
            **PPO,
        },
    ),
    Task(
        "dqn",
        "CartPole-v1",
        steps=10_000,
        epoch=1_024,
        rows=64,
        random=22,
        changes={
            "algorithm.lr": (1e-4, 1e-2),
            "algorithm.target_update_interval": (16, 1_024),
            "algorithm.epsilon.end": (1_000, 40_000),
            "algorithm.num_batches_per_iter": (8,),
            "algorithm.n_step": (1, 10),
            "algorithm.gamma": (0.9,),
            "algorithm.replay_buffer_size": (1_000,),
            "algorithm.double": (False,),
            "model.layer_norm": (False,),
        },
    ),
)
INTRODUCTION = """
# Parameters in numbers

A preset, and the same preset with one parameter changed, with seeds from 1 on. A score is the mean of the deterministic
evaluations over the training, at even steps, with the return of random actions at the beginning: how soon a run learns
counts as much as where it ends. [Which parameters matter](../does_not_learn.md#which-parameters-matter) says what
follows.

Limits: two small environments, two algorithms, short runs, few seeds. Differences that are smaller than the range
over the seeds mean nothing. One parameter is changed at a time: whether two of them must change together does not show.

Made by `python benchmarks/parameters.py`; every evaluation of every run is in `parameters.json`.
"""
HEADERS = ["task", "parameter", "value", "mean score", "least to best seed", "against the preset", "seeds"]


def main() -> int:
    options = parse_options()
    end = time.monotonic() + 60 * options.minutes
    for seed in SEEDS:  # all tasks and parameters with one seed first: an early end leaves a table without holes
        for task in TASKS:
            if not options.page and (options.only is None or task.name in options.only):
                measure(task, seed, end)
    rows = results.load(PAGE)
    draw(rows)
    results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)
    results.show("Parameters", HEADERS, cells_of(rows))
    return 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[task.name for task in TASKS], help="train this task only")
    parser.add_argument("--minutes", type=float, default=600, help="begin no run after so many minutes")
    parser.add_argument("--page", action="store_true", help="train nothing")
    return parser.parse_args()


def measure(task: Task, seed: int, end: float) -> None:
    """Train all variants of a task with a seed, but those that are measured; each is written down at once."""
    for name, settings in task.variants():
        known = results.load(PAGE).get(task.name, {})
        facts = {key: value for key, value in asdict(task).items() if key != "changes"}
        same = all(known.get(key) == value for key, value in facts.items())
        runs = known.get("runs", {}) if same else {}
        if str(seed) in runs.get(name, {}) or time.monotonic() > end:
            continue
        begun = time.monotonic()
        runs.setdefault(name, {})[str(seed)] = train(task, seed, settings)
        results.merge(PAGE, task.name, {**facts, "runs": runs})
        print(f"{task.name}  seed {seed}  {name}  {time.monotonic() - begun:.0f} s", flush=True)


def train(task: Task, seed: int, settings: Settings) -> curves.Points:
    """Train one run; its evaluations."""
    rollout = settings.get("algorithm.n_rollout_steps")
    rows = task.rows if rollout is None else 8 * rollout
    overrides = {**settings, "algorithm.epoch_length": max(1, round(task.epoch / rows)), "evaluation.n_episodes": 10}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "run"
        with RunContext(
            task.env,
            task.algorithm,
            preset=task.env,
            steps=task.steps,
            seed=seed,
            run_dir=place,
            overrides=overrides,
            silent=True,
        ) as run:
            run.train()
        return curves.evaluations(place)


def score(points: curves.Points, steps: int, random: float) -> float:
    """Mean return over the training: of the line through the evaluations, from random actions to the last step."""
    table = np.array([[0, random], *points], float)
    grid = np.linspace(0, steps, 201)
    return float(np.interp(grid, table[:, 0], table[:, 1]).mean())


def scores(row: dict[str, Any], variant: str) -> list[float]:
    return [score(points, row["steps"], row["random"]) for points in row["runs"].get(variant, {}).values()]


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """A line for the preset of each task, and for each change."""
    cells = []
    for task in (task for task in TASKS if task.name in rows):
        row = rows[task.name]
        base = statistics.fmean(scores(row, "preset"))
        for variant in row["runs"]:
            found, (name, _, value) = scores(row, variant), variant.partition("=")
            middle = statistics.fmean(found)
            change = "" if variant == "preset" else f"{round(middle - base):+,}"
            shown = ["preset", ""] if variant == "preset" else [f"`{name}`", value]
            cells.append(
                [
                    task.name,
                    *shown,
                    f"{middle:,.0f}",
                    f"{min(found):,.0f} to {max(found):,.0f}",
                    change,
                    str(len(found)),
                ]
            )
    return cells


def draw(rows: dict[str, Any]) -> None:
    """Draw the changes of every task: a dot for each value, the parameter that costs most on top."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    shown = [task for task in TASKS if task.name in rows]
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    for number, task in enumerate(shown):
        axes, row = figure.add_subplot(1, len(shown), number + 1), rows[task.name]
        base = scores(row, "preset")
        values: dict[str, list[tuple[str, float]]] = {}
        for variant in row["runs"]:
            name, _, value = variant.partition("=")
            if value:
                values.setdefault(name, []).append((value, statistics.fmean(scores(row, variant))))
        order = sorted(values, key=lambda name: -min(middle for _, middle in values[name]))
        axes.axvspan(min(base), max(base), color="#0072B2", alpha=0.15, linewidth=0)
        axes.axvline(statistics.fmean(base), color="#0072B2", linewidth=1)
        for place, name in enumerate(order):
            worst = min(values[name], key=lambda pair: pair[1])
            axes.plot([middle for _, middle in values[name]], [place] * len(values[name]), "o", color="#D55E00", ms=4)
            axes.annotate(
                worst[0], (worst[1], place), xytext=(0, 4), textcoords="offset points", fontsize=6, ha="center"
            )
        axes.set_yticks(range(len(order)), order, fontsize=7)
        axes.set_title(f"{task.algorithm.upper()}, {task.env}", fontsize=9)
        axes.set_xlabel("mean return over training", fontsize=8)
        axes.tick_params(axis="x", labelsize=7)
        axes.grid(axis="x", alpha=0.25)
    with mpl.rc_context({"svg.hashsalt": "maze", "svg.fonttype": "none"}):
        figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
