"""Joint replay and a joint loss of an outsider's package: resumes, workers, what it learns, and games in turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from maze_core.base.errors import ConfigError
from tests.agents import CrowdSource, TeamSource

SOURCE = Path(__file__).with_name("together.py").read_text(encoding="utf-8")


@pytest.fixture
def built(quick, outsider):
    """`built(epochs, source, **parts)`: a run of the package's algorithm."""
    outsider("maze_together", SOURCE, {"algorithm": {"together": "Together"}, "env": {"gifts": "GiftsSource"}})

    def build(epochs=4, source=TeamSource, values=None, **parts):
        sizes = {"model.hidden": [8], "algorithm.n_rollout_steps": 2, "algorithm.epoch_length": 8}
        values = sizes | {"algorithm.n_epochs": epochs, "algorithm.n_step": 2} | (values or {})
        return quick(source, "together", values, **parts)

    return build


def test_a_resumed_run_and_one_on_workers_equal_the_uninterrupted_one(built, whole_state, assert_same):
    whole = built()
    whole.train()
    replay = whole.run.algorithm.kept["collector"].replay
    assert replay.rows > 3 * replay.capacity  # its rows have been overwritten
    half = built(2)
    half.train()
    built(run_dir=None).resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))
    elsewhere = built(runner={"name": "local", "workers": 2})
    elsewhere.train()
    assert_same(whole_state(whole.run_dir), whole_state(elsewhere.run_dir))


@pytest.mark.slow  # the tutorial's has learnt, too
def test_a_team_learns_what_agents_that_learn_alone_do_not(built, quick):
    more = {"algorithm.replay_buffer_size": 2000, "algorithm.batch_size": 64, "algorithm.n_step": 1}
    more |= {"algorithm.initial_buffer_size": 200, "algorithm.epoch_length": 250, "algorithm.lr": 5e-3}
    team = built(1, {"name": "gifts"}, more | {"model.hidden": [32]})
    team.train()
    assert team.evaluate()["eval/return_mean"] > 9
    alone = {key: value for key, value in more.items() if key != "algorithm.n_step"}
    other = quick({"name": "gifts"}, "dqn", alone | {"algorithm.n_epochs": 1, "model.hidden": [32]})
    other.train()
    assert other.evaluate()["eval/return_mean"] < 7


def test_agents_that_wait_are_refused(built):
    with pytest.raises(ConfigError, match=r"env: agent \d of environment \d has acted and waits for others"):
        built(source=CrowdSource).train()
