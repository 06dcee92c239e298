"""A signal ends a program that sweeps, once the runs are saved; the same call continues."""

import os
import signal

import pytest
from maze_sweep.api import read_sweep, run_sweep
from maze_sweep.ranking import to_frame

PLAN = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "preset": "none",
    "over": {"algorithm.lr": [1e-3, 1e-2]},
    "overrides": {
        "algorithm.n_rollout_steps": 8,
        "algorithm.n_epochs": 1,
        "algorithm.epoch_length": 1,
        "algorithm.num_envs": 1,
        "evaluation.n_episodes": 1,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_loop_over_sweeps_ends_with_the_one_that_was_interrupted(tmp_path, number):
    sent = []

    def watch(sweep, end):
        if end is not None and not sent:
            sent.append(end)
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt) as caught:
        run_sweep(PLAN, tmp_path / "sweep", jobs=1, watch=watch)
    assert getattr(caught.value, "exit_code", 130) == 128 + number
    states = [run.state for trial in read_sweep(tmp_path / "sweep").trials for run in trial.runs]
    assert states[0] == "finished"
    assert "finished" not in states[1:]
    done = run_sweep(PLAN, tmp_path / "sweep", jobs=2)
    assert [run.state for run in done.runs] == ["finished"] * 2
    if number == signal.SIGINT and pytest.importorskip("pandas"):
        table = to_frame(done)
        assert table["algorithm.lr"].tolist() == [1e-3, 1e-2]
        assert table["eval/return_mean"].tolist() == [value for each in done.trials for value in each.values(done.plan)]
        assert table["state"].tolist() == ["finished"] * 2
