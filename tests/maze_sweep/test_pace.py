"""How far a sweep is, and how long the rest takes."""

from pathlib import Path
from types import SimpleNamespace as Made

import pytest
from maze_sweep.pace import Pace, share_done, words
from maze_sweep.trials import SweepRun


def made_sweep(*runs, total=4, steps=100):
    """A sweep of one trial; runs are pairs of a state and the steps of the last epoch."""
    config = Made(steps=steps, algorithm=Made(n_epochs=None))
    its = [SweepRun("", 0, Path(), Path(), state) for state, _ in runs]
    for run, (_, done) in zip(its, runs, strict=True):
        run.epochs += [{"epoch": 1, "env_steps": done}] if done != 0 else []
    return Made(trials=[Made(until=None, config=config, runs=its)], total_runs=total)


@pytest.mark.parametrize(
    ("runs", "share"),
    [
        ((), 0),
        ((("waiting", 50), ("interrupted", 50)), 0),
        ((("finished", 100), ("failed", 3), ("pruned", 0), ("killed", 0)), 1),
        ((("running", 50), ("finished", 100)), 0.375),
        ((("running", 500),), 0.25),
        ((("running", 0),), 0),
        ((("running", None),), 0),
    ],
)
def test_running_runs_count_by_their_steps(runs, share):
    assert share_done(made_sweep(*runs)) == pytest.approx(share)


def test_runs_without_an_end_count_when_they_end():
    sweep = made_sweep(("running", 50), steps=None)
    assert share_done(sweep) == 0


def test_the_time_left_follows_the_pace_of_this_session():
    now = [100.0]
    pace = Pace(made_sweep(("finished", 1), ("running", 0)), lambda: now[0])
    assert pace.seconds_left(made_sweep(("finished", 1), ("running", 0))) is None
    now[0] += 30
    assert pace.seconds_left(made_sweep(("finished", 1), ("running", 50))) == pytest.approx(30 / 0.125 * 0.625)
    assert pace.seconds_left(made_sweep(*[("finished", 1)] * 4)) == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.0, ""), (0.4, "about 0:00 left"), (65, "about 1:05 left"), (3605, "about 1:00:05 left")],
)
def test_words(seconds, text):
    assert words(seconds) == text
