"""Events in whole runs: metrics of training and evaluation, histograms, resume, the runner `local`."""

from __future__ import annotations

import json

import pytest
from maze_events.event import EventSummary
from maze_events.histograms import Histogram
from maze_events.statistics import event_histograms, event_statistics

from maze_core.envs.vector import Episode
from maze_core.run.episodes.statistics import EpochStatistics
from maze_core.run.saved.checkpoint import decode_state, encode_state, read_checkpoint
from tests.market import Market


def lines(context):
    return [json.loads(line) for line in (context.run_dir / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("runner", ["dev", "local"])
def test_metrics_of_events_agree_with_returns(quick, runner):
    context = quick(Market, runner=runner)
    context.train()
    for line in lines(context):
        for part in ("train", "eval"):
            assert line[f"{part}/event/price/sum_mean"] == pytest.approx(line[f"{part}/return_mean"])
            assert line[f"{part}/event/price/sum_max"] == pytest.approx(line[f"{part}/return_max"])
            shares = [line.get(f"{part}/actor/{name}/event/price/sum_mean", 0) for name in ("north", "south")]
            assert sum(shares) == pytest.approx(line[f"{part}/return_mean"])
            assert 0 < line[f"{part}/kpi/mean_price"] < line[f"{part}/event/price/max_mean"] < 1
    assert context.evaluate()["eval/kpi/mean_price"] > 0


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_a_resumed_run_reports_what_the_uninterrupted_one_does(quick, whole_state, assert_same, algorithm):
    small = {"algorithm.initial_buffer_size": 8, "algorithm.batch_size": 4} if algorithm == "dqn" else {}
    longer = {**small, "algorithm.n_epochs": 4}
    whole = quick(Market, algorithm, longer)
    whole.train()
    half = quick(Market, algorithm, small)
    half.train()
    half.close()
    rest = quick(Market, algorithm, longer)
    rest.resume(half.run_dir)
    if algorithm != "dqn":  # the rows of its replay buffer lie in other files after a resume
        assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))
    kept = [[{k: v for k, v in line.items() if "price" in k} for line in lines(each)] for each in (whole, half)]
    assert kept[0] == kept[1]
    assert len(kept[0]) == 4
    assert all("train/kpi/mean_price" in line for line in kept[0])


def summary(**values):
    epoch = dict.fromkeys(("event/a/sum", "event/a/max"), ("mean", "min", "max", "sum", "histogram"))
    named = {f"event/a/{name}": value for name, value in values.items()}
    return EventSummary(named, epoch, {"event/a/histogram": Histogram.of([1.0, 2.0])})


def test_an_unfinished_epoch_keeps_its_events_through_a_checkpoint():
    before, after = EpochStatistics(), EpochStatistics()
    before.add([Episode(0, 1, 2.0, 3, {"x": 1.0}, summary(sum=3.0, max=2.0)), Episode(0, 2, 2.0, 3)])
    after.load_state(decode_state(*encode_state(before.state())))
    assert after.state() == before.state()
    assert after.epoch_metrics() == before.epoch_metrics()
    assert after.histograms == before.histograms
    assert set(after.histograms) == {
        f"train/event/a/{name}" for name in ("histogram", "sum_histogram", "max_histogram")
    }


def test_what_nobody_reported_counts_as_none_and_has_no_maximum():
    episodes = [Episode(0, n, 0.0, 1, {}, each) for n, each in enumerate([summary(sum=3.0, max=2.0), summary()])]
    found = event_statistics([*episodes, Episode(0, 9, 0.0, 1)], "eval")  # the last one was cut
    assert {name.removeprefix("eval/event/a/"): value for name, value in found.items()} == {
        "sum_mean": 1.5, "sum_min": 0.0, "sum_max": 3.0, "sum_sum": 3.0,
        "max_mean": 2.0, "max_min": 2.0, "max_max": 2.0, "max_sum": 2.0,
    }  # fmt: skip
    assert not any("a/max" in name for name in event_statistics([episodes[1]], "eval"))
    drawn = event_histograms(episodes, "eval")
    assert drawn["eval/event/a/histogram"].count == 4
    assert drawn["eval/event/a/sum_histogram"].count == 2


def test_sums_beyond_all_numbers_end_no_run():
    huge = [Episode(0, n, 0.0, 1, {}, summary(sum=1.7e308)) for n in range(3)]
    assert event_statistics(huge, "train")["train/event/a/sum_mean"] == float("inf")


def test_runs_without_events_are_saved_as_before(quick):
    context = quick()
    context.train()
    saved = read_checkpoint(context.run_dir / "checkpoints" / "last").state["statistics"]
    assert all(len(row) == 5 for row in saved["episodes"])
    assert not any("event/" in name or "kpi/" in name for line in lines(context) for name in line)
