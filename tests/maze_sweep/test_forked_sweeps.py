"""Sweeps whose trials go on from others: killed at any moment they end as unbroken ones, and lines as single runs."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from maze_sweep.api import run_sweep
from maze_sweep.best_preset import BEST
from maze_sweep.lines import best_line

from maze_core.plugins.config.assembly import assemble, load_run_config
from maze_core.run.api import train
from tests.forked import WITH_WORKERS, Forked

TINY = {
    "algorithm": "ppo", "env": "CartPole-v1", "preset": "none", "over": {"algorithm.lr": "1e-4..1e-2:log"},
    "overrides": {
        "steps": 216, "algorithm.num_envs": 2, "algorithm.n_rollout_steps": 4, "algorithm.epoch_length": 3,
        "model.hidden": [4], "evaluation.n_episodes": 2, "callbacks.tensorboard": None,
    },
}  # fmt: skip
SAC = {
    "algorithm": "sac", "env": "Pendulum-v1", "over": {"algorithm.gamma": "0.9..0.99"},
    "overrides": {
        "steps": 240, "algorithm.initial_buffer_size": 20, "algorithm.batch_size": 8, "algorithm.epoch_length": 15,
        "model.hidden": [4], "evaluation.n_episodes": 1, "callbacks.tensorboard": None, "env.max_episode_steps": 50,
    },
}  # fmt: skip
SEARCHERS = {
    "asha": {"searcher": {"name": "asha", "rungs": 3, "workers": 2}, "trials": 6},
    "pbt": {"searcher": {"name": "pbt", "population": 2, "quantile": 0.5, "generations": 4}},
}
IN_A_GROUP = f"import os; os.setsid()\n{WITH_WORKERS}"
"""A command with all that it starts, so that one signal reaches them."""
pytestmark = pytest.mark.slow


@pytest.fixture
def outcome(whole_state):
    """What a sweep's folder says in the end."""

    def read(folder):
        trials = json.loads((folder / "trials.json").read_text())["trials"]
        runs = sorted((folder / "runs").iterdir())
        lines = {run.name: metrics(run) for run in runs}
        return {"trials": trials, "lines": lines, "states": {run.name: whole_state(run) for run in runs}}

    return read


def metrics(run_dir):
    """Its epochs, but the times; none, if it has paused within the first."""
    if not (run_dir / "metrics.jsonl").exists():
        return []
    lines = (run_dir / "metrics.jsonl").read_text().splitlines()
    return [
        {key: each for key, each in json.loads(line).items() if "seconds" not in key and "time/" not in key}
        for line in lines
    ]


@pytest.mark.parametrize(("searcher", "plan"), [("asha", TINY), ("pbt", SAC)], ids=["asha", "pbt"])
def test_a_sweep_that_was_killed_goes_on_and_ends_as_one_that_was_not(tmp_path, outcome, assert_same, searcher, plan):
    plan = {**plan, **SEARCHERS[searcher]}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run_sweep(plan, whole, jobs=2)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    command = ["sweep", "--plan", file, "--dir", killed, "--jobs", "2"]
    count = len(list((whole / "runs").iterdir()))
    for number, moment in enumerate((0, 0.4, 0.8)):  # while this part of the runs has begun, or a bit later
        process = Forked(command, tmp_path, os.environ, IN_A_GROUP)
        while process.poll() is None and begun(killed) <= moment * count:
            time.sleep(0.01)
        time.sleep(0.1 * number)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = run_sweep(plan, killed, jobs=3)
    assert {run.state for run in done.runs} == {"finished"}
    first, second = outcome(whole), outcome(killed)
    assert first["trials"] == second["trials"]
    assert first["lines"] == second["lines"]
    assert_same(first["states"], second["states"])
    assert not [each for each in (killed / "runs").iterdir() if each.name.startswith(".")]


def begun(folder):
    return len(list((folder / "runs").glob("t*"))) if (folder / "runs").exists() else 0


def test_a_line_of_budgets_ends_as_one_run_without(tmp_path, whole_state, assert_same):
    """So the learning rate falls towards the end of the run, not of the budget, and nothing begins anew."""
    sweep = run_sweep({**TINY, **SEARCHERS["asha"]}, tmp_path / "s", jobs=2)
    ends = [trial for trial in sweep.trials if trial.until == 216]
    assert ends
    for trial in ends:
        run = trial.runs[0]
        config = load_run_config(run.run_dir / "config.yaml", ["callbacks.budget=null"])
        single = tmp_path / run.name
        train(config, single)
        assert_same(whole_state(run.run_dir), whole_state(single))
        assert metrics(run.run_dir) == metrics(single)


def test_a_budget_of_seconds_and_of_epochs(tmp_path):
    plan = {**TINY, **SEARCHERS["asha"], "overrides": {**TINY["overrides"], "steps": None, "max_time": "1.8s"}}
    sweep = run_sweep(plan, tmp_path / "seconds", jobs=2)
    assert {run.state for run in sweep.runs} == {"finished"}
    assert {trial.until for trial in sweep.trials} == {0.2, 0.6, 1.8}
    for trial in sweep.trials:
        assert trial.until <= trial.runs[0].record().count("seconds") < trial.until + 1.5
    plan = {**TINY, **SEARCHERS["pbt"], "overrides": {**TINY["overrides"], "steps": None, "algorithm.n_epochs": 4}}
    sweep = run_sweep(plan, tmp_path / "epochs", jobs=2)
    assert [trial.runs[0].record().count("epoch") for trial in sweep.trials] == [1, 1, 2, 2, 3, 3, 4, 4]


def test_the_schedule_that_was_found_repeats_the_line(tmp_path, whole_state, assert_same):
    """One run with the preset that the sweep writes ends bit for bit as the best line of forks."""
    pytest.importorskip("maze_core.plugins.config.schedules")
    overrides = {**TINY["overrides"], "algorithm.lr_schedule": "constant"}
    over = {"algorithm.lr": "1e-4..1e-2:log", "algorithm.entropy_coef": "1e-4..1e-1:log"}
    plan = {**TINY, "overrides": overrides, "over": over, **SEARCHERS["pbt"], "take": "last"}
    sweep = run_sweep(plan, tmp_path / "s", jobs=2)
    line = best_line(sweep)
    assert len(line) > 1
    single = tmp_path / "single"
    config = assemble("ppo", "CartPole-v1", preset=str(tmp_path / "s" / BEST), flags={"seed": 0})
    train(config, single)
    last = sweep.trials[line[-1].trials[-1]]
    assert (last.until, config.steps) == (216, 216)
    assert_same(whole_state(last.runs[0].run_dir)["model"], whole_state(single)["model"])
