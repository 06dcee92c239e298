from __future__ import annotations

import math
from dataclasses import replace

import pytest
from pydantic import ValidationError

from maze_core.run.callbacks import BestCheckpoint, EarlyStopping, EarlyStoppingConfig


def test_saves_the_best_and_only_the_best(make_run, make_epoch):
    run, callback = make_run(), BestCheckpoint(None)
    for number, is_best in [(1, True), (2, False), (3, True)]:
        run.epoch = number
        callback.on_epoch_end(run, make_epoch(number, is_best))
    assert run.saved == [("best", 1), ("best", 3)]


def test_of_equals_the_newest_is_saved(make_run, make_epoch):
    run, callback = make_run(epoch=7), BestCheckpoint(None)
    callback.on_epoch_end(run, replace(make_epoch(7), ties_best=True))
    assert run.saved == [("best", 7)]


def test_best_needs_a_run_directory(make_run, make_epoch):
    run = make_run(run_dir=None)
    BestCheckpoint(None).on_epoch_end(run, make_epoch(1, True))
    assert run.saved == []


def stops(run, epoch, **config):
    EarlyStopping(EarlyStoppingConfig(**config)).on_epoch_end(run, epoch)
    return run.stops


@pytest.mark.parametrize(
    ("patience", "improved_epoch", "epoch", "expected"),
    [
        (3, 5, 7, False),
        (3, 5, 8, True),
        (3, 5, 9, True),
        (0, 1, 999, False),
        (1, 4, 4, False),
        (1, 4, 5, True),
    ],
)
def test_patience_counts_epochs_after_the_best(make_run, make_epoch, patience, improved_epoch, epoch, expected):
    run = make_run(improved_epoch=improved_epoch)
    assert bool(stops(run, make_epoch(epoch, eval__return_mean=1.0), patience=patience)) is expected


def test_patience_leaves_the_epochs_alone_that_the_caller_asked_for(make_run, make_epoch):
    run = make_run(improved_epoch=5, full_length=True)
    assert stops(run, make_epoch(99, eval__return_mean=1.0), patience=3) == []
    assert stops(run, make_epoch(99, eval__return_mean=1.0), patience=3, target_return=1.0) != []


def test_the_reason_is_plain(make_run, make_epoch):
    run = make_run(improved_epoch=5)
    assert stops(run, make_epoch(8), patience=3) == [
        "3 epochs without a new best evaluation after epoch 5 (patience is 3)"
    ]


def test_patience_also_ends_a_run_that_never_had_an_evaluation(make_run, make_epoch):
    run = make_run(improved_epoch=None)
    assert stops(run, make_epoch(2, eval__return_mean=math.nan), patience=3) == []
    assert stops(run, make_epoch(3, eval__return_mean=math.nan), patience=3) != []


@pytest.mark.parametrize(
    ("target", "score", "expected"),
    [
        (None, 1e9, False),
        (475.0, 474.9, False),
        (475.0, 475.0, True),
        (-250.0, -240.0, True),
        (1.0, math.nan, False),
    ],
)
def test_target_return(make_run, make_epoch, target, score, expected):
    run = make_run(improved_epoch=1)
    reasons = stops(run, make_epoch(1, eval__return_mean=score), target_return=target)
    assert bool(reasons) is expected


def test_target_needs_an_evaluation(make_run, make_epoch):
    assert stops(make_run(improved_epoch=1), make_epoch(1), target_return=0.0) == []


def test_unknown_option_is_refused():
    with pytest.raises(ValidationError, match="target"):
        EarlyStoppingConfig(target=3.0)
