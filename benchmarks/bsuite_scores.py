"""What do DQN and PPO score in bsuite, by bsuite's own code?

    pip install bsuite==0.3.6                                  beside Maze
    python benchmarks/bsuite_scores.py                         every agent, the first setting of each experiment
    python benchmarks/bsuite_scores.py --agents ppo --experiments memory_len --settings 0 4 9

bsuite's environments come in its own logger, and `analysis.score` of each experiment scores what it wrote. An agent has
one set of settings for all experiments. Finished runs are written to docs/benchmarks/bsuite.json at once, with bsuite's
log, and are not played again, so a table can be continued where it stopped, and further settings of an experiment join
those that were played. (The file is not called bsuite.py: Python would take it for the package.)
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import results
from bsuite import sweep
from bsuite.experiments import summary_analysis
from bsuite.logging import csv_load, csv_logging
from bsuite_run import play

PAGE, SEED = "bsuite", 1
ON_POLICY = {
    "algorithm.num_envs": 1,
    "algorithm.n_rollout_steps": 128,
    "algorithm.n_optimization_epochs": 4,
    "algorithm.lr_schedule": "constant",
    "algorithm.entropy_coef": 0.01,
    "algorithm.normalize_rewards": True,
}


class Agent(NamedTuple):
    """An algorithm with the settings that it has in every experiment, and the updates of an epoch."""

    algorithm: str
    settings: dict[str, Any]
    epoch: int


AGENTS = {
    "ppo": Agent("ppo", ON_POLICY, 40),
    "ppo-gru": Agent("ppo", {**ON_POLICY, "model.memory": "gru", "algorithm.sequence_length": 32}, 40),
    "dqn": Agent(
        "dqn",
        {
            "algorithm.n_rollout_steps": 4,
            "algorithm.batch_size": 32,
            "algorithm.lr": 1e-3,
            "algorithm.replay_buffer_size": 10_000,
            "algorithm.initial_buffer_size": 100,
            "algorithm.target_update_interval": 250,
            "algorithm.epsilon": 0.05,
        },
        1_250,
    ),
}
LONG = ("cartpole", "mountain_car")
"""Experiments that begin so have up to a million steps."""
EXPERIMENTS = sorted(summary_analysis.BSUITE_INFO, key=lambda name: (name.startswith(LONG), name))
HEADERS = ["experiment", "episodes", "settings", *AGENTS]
TAG_HEADERS = ["tag", *AGENTS]
RUN_HEADERS = ["run", "seconds", "steps"]
NONE, NOT_HERE = "-", "mnist"
"""What stands for a run that was not made, and the experiments whose data must be downloaded."""
INTRODUCTION = """
# bsuite

The [Behaviour Suite](https://github.com/google-deepmind/bsuite) (Osband et al. 2020,
[1908.03568](https://arxiv.org/abs/1908.03568)) examines an agent by 23 experiments. Its environments are in its own
logger, and its own code scores what was logged, between 0 and 1. Each agent has one set of settings for all
experiments; nothing was tuned for one of them. Episodes are as many as bsuite asks for, in one environment, and they
are those of the training: there is no evaluation afterwards. Each run has the seed 1.

In brackets beside each score is the number of settings that were played, of those that the experiment has; the last
table names them. bsuite's own small set, `sweep.TESTING`, is the first setting of the 13 experiments without added
noise and scaled rewards. The score of some settings is not that of the whole experiment. The first is mostly the
easiest: noise of 0.1, or `memory_len` with a last step that still shows what is to be remembered. A dash is a run that
was not made. The `mnist` experiments download their pictures, which was not possible on the machine that made the
table.

bsuite's report shows its scores as pictures, without their numbers, so none are copied here.
"""
TAGS = """
## By tag

The mean over the experiments that have the tag and were played, as bsuite computes it, with their number. Agents have
not all played the same ones.
"""
SETTINGS = """
## Settings

Everything else has Maze's defaults. PPO divides rewards by their running scale, since bsuite examines that. DQN has the
values of bsuite's own DQN, but learns from a batch after four steps instead of one, and copies its targets after 250
updates instead of four. With four its values grow without bound on `cartpole`, whose score is then 0.01, and `deep_sea`
has 1.00.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=list(AGENTS), help="these only, in this order")
    parser.add_argument("--experiments", nargs="+", choices=EXPERIMENTS, default=EXPERIMENTS, help="these only")
    parser.add_argument("--short", action="store_true", help="without those that have up to a million steps")
    parser.add_argument("--settings", nargs="+", type=int, default=[0], help="their numbers in bsuite (default 0)")
    parser.add_argument("--runs", type=Path, default=Path("runs/bsuite"), help="where the run directories go")
    options = parser.parse_args()
    for name in options.agents:
        for bsuite_id in wanted(options):
            known = finished(name)
            if bsuite_id not in known["runs"]:
                agent, folder = AGENTS[name], options.runs / name / bsuite_id.replace("/", "-")
                known["runs"][bsuite_id] = play(bsuite_id, *agent[:2], folder, SEED, agent.epoch)
                write_page(results.merge(PAGE, name, known))
                print(f"{name}  {bsuite_id}  {known['runs'][bsuite_id]['seconds']:.0f} s", flush=True)
    rows = results.load(PAGE)
    write_page(rows)
    results.show("bsuite", HEADERS, cells_of(rows))
    return 0


def finished(name: str) -> dict[str, Any]:
    """The runs of an agent with the settings that it has now."""
    facts = {"algorithm": AGENTS[name].algorithm, "settings": AGENTS[name].settings}
    known: dict[str, Any] = results.load(PAGE).get(name, {})
    return known if all(known.get(fact) == value for fact, value in facts.items()) else {**facts, "runs": {}}


def wanted(options: argparse.Namespace) -> Iterator[str]:
    """The ids to play: the first named setting of all experiments before the second of any."""
    for index in options.settings:
        for name in options.experiments:
            bsuite_id = f"{name}{sweep.SEPARATOR}{index}"
            left_out = name.startswith(NOT_HERE) or (options.short and name.startswith(LONG))
            if bsuite_id in sweep.SETTINGS and not left_out:
                yield bsuite_id


def by_experiment(runs: dict[str, Any]) -> pd.DataFrame:
    """bsuite's scores of these runs: a line for each experiment."""
    with tempfile.TemporaryDirectory() as folder:
        for bsuite_id, run in runs.items():
            safe = bsuite_id.replace(sweep.SEPARATOR, csv_logging.SAFE_SEPARATOR)
            (Path(folder) / f"{csv_logging.BSUITE_PREFIX}{safe}.csv").write_text(run["log"])
        with_append()
        return summary_analysis.bsuite_score(csv_load.load_one_result_set(folder))


def with_append() -> None:
    """Give pandas back the method that bsuite's analysis of deep_sea calls: pandas 2 took it away."""
    if not hasattr(pd.Series, "append"):
        pd.Series.append = lambda series, other: pd.concat([series, other])


def write_page(rows: dict[str, Any]) -> None:
    """Write the page of all runs made so far."""
    by_tag = results.table(TAG_HEADERS, tag_cells(rows))
    settings = [f"- `{name}`: {said(agent)}" for name, agent in AGENTS.items()]
    where = results.where_and_when({name: rows[name] for name in AGENTS if name in rows})
    parts = [
        *(INTRODUCTION, results.table(HEADERS, cells_of(rows)), TAGS, by_tag, SETTINGS, "\n".join(settings)),
        "Made by `python benchmarks/bsuite_scores.py`; bsuite's log of every run is in `bsuite.json`.",
        results.folded("Seconds and steps of each run", results.table(RUN_HEADERS, run_cells(rows))),
        *("## Where and when", where),
    ]
    results.write(PAGE, parts)


def said(agent: Agent) -> str:
    values = ", ".join(f"`{path.partition('.')[2]}={value}`" for path, value in agent.settings.items())
    return f"`{agent.algorithm}`, {values}"


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table: a line for each experiment, with the score of each agent and of how many settings it is."""
    scores = {name: dict(by_experiment(row["runs"])[["bsuite_env", "score"]].values) for name, row in rows.items()}
    lines = []
    for experiment in EXPERIMENTS:
        ids = [each for each in sweep.SWEEP if each.partition(sweep.SEPARATOR)[0] == experiment]
        counts = {name: sum(each in row["runs"] for each in ids) for name, row in rows.items()}
        found = [cell(scores.get(name, {}).get(experiment, math.nan), counts.get(name, 0)) for name in AGENTS]
        lines.append([experiment, f"{sweep.EPISODES[ids[0]]:,}", str(len(ids)), *found])
    return lines


def tag_cells(rows: dict[str, Any]) -> results.Cells:
    """A line for each tag: the mean score, and of how many experiments."""
    columns = {}
    for name, row in rows.items():
        scored = by_experiment(row["runs"])
        means = summary_analysis.ave_score_by_tag(scored, [])
        counts = {tag: sum(f"'{tag}'" in tags for tags in scored["tags"]) for tag in means["tag"]}
        columns[name] = {tag: cell(mean, counts[tag]) for tag, mean in zip(means["tag"], means["score"], strict=True)}
    tags = sorted(summary_analysis.ALL_TAGS)
    return [[tag.replace("_", " "), *(columns.get(name, {}).get(tag, NONE) for name in AGENTS)] for tag in tags]


def run_cells(rows: dict[str, Any]) -> results.Cells:
    """A line for each run."""
    return [
        [f"{name} {bsuite_id}", f"{run['seconds']:,.0f}", f"{steps_of(run['log']):,}"]
        for name in AGENTS
        for bsuite_id, run in sorted(rows.get(name, {"runs": {}})["runs"].items(), key=place)
    ]


def place(entry: tuple[str, Any]) -> tuple[int, int]:
    """Where the run of an id stands: by experiment and setting."""
    experiment, _, setting = entry[0].partition(sweep.SEPARATOR)
    return EXPERIMENTS.index(experiment), int(setting)


def steps_of(log: str) -> int:
    """Environment steps of a run, from bsuite's log."""
    header, *_, last = log.splitlines()
    return int(last.split(",")[header.split(",").index("steps")])


def cell(score: float, count: int) -> str:
    """A score and of how many settings or experiments it is."""
    return f"{score:.2f} ({count})" if count else NONE


if __name__ == "__main__":
    sys.exit(main())
