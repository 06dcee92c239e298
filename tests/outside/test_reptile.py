"""Meta-learning of an outsider's package: the tasks, rollouts and other parameters that the core offers are enough."""

from __future__ import annotations

from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("reptile.py").read_text(encoding="utf-8")
VALUES = {"model.hidden": [8], "algorithm.lr": 1.0}


@pytest.fixture
def package(outsider):
    """The package is installed."""
    return outsider("maze_reptile", SOURCE, {"algorithm": {"reptile": "Reptile"}})


@pytest.mark.parametrize("tasks", [{"level": {"low": 1.5, "high": 2.5}}])
def test_a_resumed_run_and_one_on_workers_end_where_an_unbroken_one_does(
    package, quick, whole_state, assert_same, tasks
):
    values = {**VALUES, "algorithm.tasks": tasks, "algorithm.n_rollout_steps": 5}
    whole, half = quick("maze_reptile:Levels", "reptile", values), quick("maze_reptile:Levels", "reptile", values)
    whole.train()
    half.train(1)
    half.close()
    again = quick("maze_reptile:Levels", "reptile", values, run_dir=None, runner={"name": "local", "workers": 2})
    again.resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))


@pytest.mark.slow
def test_it_comes_near_all_levels(package, quick):
    long = {
        "algorithm.epoch_length": 60,
        "algorithm.n_epochs": 1,
        "algorithm.n_rollout_steps": 5,
        "algorithm.inner_lr": 0.1,
    }
    context = quick("maze_reptile:Levels", "reptile", {**VALUES, **long})
    before = context.evaluate()["eval/return_mean"]
    context.train()
    assert before < -8
    assert context.evaluate()["eval/return_mean"] > 0.6 * before
