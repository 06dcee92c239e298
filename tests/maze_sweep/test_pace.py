"""How far a sweep is, and how long the rest takes."""

from pathlib import Path
from types import SimpleNamespace as Made

import pytest
from maze_sweep.pace import Pace, share_done, words
from maze_sweep.searchers.asha import ASHAConfig, ASHASearcher
from maze_sweep.searchers.base import Done, Search, Whole
from maze_sweep.searchers.hyperband import HyperbandConfig, HyperbandSearcher
from maze_sweep.searchers.space import Range
from maze_sweep.trials import SweepRun


def made_sweep(*runs, total=4, steps=100):
    """A sweep of one trial; runs are pairs of a state and the steps of the last epoch."""
    config = Made(steps=steps, algorithm=Made(n_epochs=None))
    its = [SweepRun("", 0, Path(), Path(), state) for state, _ in runs]
    for run, (_, done) in zip(its, runs, strict=True):
        run.epochs += [{"epoch": 1, "env_steps": done}] if done != 0 else []
    return Made(
        trials=[Made(until=None, config=config, runs=its)], total_runs=total, searcher=Made(length=lambda: None)
    )


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


def test_runs_that_train_further_count_more():
    """27 points of `asha` to 100 steps, of which the three best go on to 300, and one of these to 900."""
    asha = ASHASearcher(ASHAConfig(name="asha", rungs=3, workers=1))
    asha.setup(Search({"a": Range(0.0, 1.0)}, 0, 9, True, Path(), whole := Whole(900.0, "steps")))
    assert asha.length() == 9 * 100 + 3 * 200 + 600
    trials, plan = [], Made(seeds=[0, 1])
    sweep = Made(trials=trials, searcher=asha, whole=whole, plan=plan, total_runs=26)
    shares = []
    while not isinstance(point := asha.ask(len(trials)), Done):
        number, ended = len(trials), [SweepRun("", 0, Path(), Path(), "finished") for _ in plan.seeds]
        trials.append(Made(until=asha.until(number), parent=asha.parent(number), config=Made(), runs=ended))
        asha.tell(number, point, point["a"])
        shares.append(share_done(sweep))
    assert shares[0] == pytest.approx(100 / 2100)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    whole_bands = HyperbandSearcher(HyperbandConfig(name="hyperband", rungs=2))
    whole_bands.setup(Search({"a": Range(0.0, 1.0)}, 0, None, True, Path(), Whole(900.0, "steps")))
    assert whole_bands.length() == 3 * 300 + 600 + 2 * 900


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
