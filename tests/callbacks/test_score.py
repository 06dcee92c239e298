"""A metric in the place of the return: what is best, when a run stops, and what those read who compare runs."""

from __future__ import annotations

import json
import math

import pytest
import yaml
from maze_compare.records import read_run
from maze_events import Event, Events
from maze_sweep.plan import make_plan
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.run.progress import RunState
from tests.run_records import record_of

METRIC = "score.metric"


@pytest.fixture
def shop():
    """Walks whose KPI `on_time` falls while the return rises."""
    from maze_devkit.envs import SeededWalk

    class Shop(SeededWalk):
        def __init__(self):
            super().__init__()
            self.events = Events({"order": Event(["count"]), "rare": Event(["mean"])}, kpis=self.kpis)

        def kpis(self, episode):
            return {"on_time": -float(episode.count("order"))}

        def step(self, action):
            result = super().step(action)
            if result[1] > 0:
                self.events.report("order")
            return result

    return Shop


@pytest.mark.parametrize(
    ("score", "name", "lower"),
    [
        ({METRIC: "eval/kpi/on_time", "score.maximize": False}, "eval/kpi/on_time", True),
        ({METRIC: "eval/event/order/count_mean"}, "eval/event/order/count_mean", False),
        ({METRIC: "train/length_median"}, "train/length_median", False),
    ],
)
def test_the_metric_decides_the_best_checkpoint_and_what_is_compared(quick, shop, score, name, lower):
    context = quick(shop, "a2c", {**score, "algorithm.n_epochs": 4})
    summary = context.train()
    found = [json.loads(line)[name] for line in (context.run_dir / "metrics.jsonl").open()]
    best = (min if lower else max)(found)
    assert summary.best_score == best
    assert summary.best_epoch == max(number for number, value in enumerate(found, 1) if value == best)
    record = read_run(context.run_dir)
    assert (record.judged_by, record.value()) == ((score[METRIC], lower), best)
    assert record.overview()["best_score"] == best
    assert record.overview()["best_return"] == max(record.series("eval/return_mean"))


def test_the_target_is_one_of_the_metric_and_of_its_direction(quick, shop):
    target = {"callbacks.early_stopping.target_return": 1e6, METRIC: "eval/on_time", "score.maximize": False}
    summary = quick(shop, "a2c", target).train()
    assert (summary.epochs, summary.outcome) == (1, "stopped")
    assert summary.reason.startswith("eval/on_time ")
    assert quick(shop, "a2c", {**target, "score.maximize": True}).train().epochs == 2


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({METRIC: "eval/on_tme"}, r"score.metric: no epoch has the metric 'eval/on_tme'\n.*eval/kpi/on_time"),
        ({METRIC: "eval/on_time", "evaluation.n_episodes": 0}, r"score.metric: no evaluation gives it"),
        ({METRIC: "on_time"}, r"score.metric"),
        ({"score.metrik": "eval/on_time"}, r"score.metri[ck]"),
        ({METRIC: "eval/on_time", "score.maximize": "up"}, r"score.maximize"),
        ({METRIC: "eval/event/ordr/count_mean"}, r"no epoch has .*\n.*eval/event/order/count_mean"),
    ],
)
def test_metrics_that_never_come_and_wrong_words_are_refused(quick, shop, values, told):
    with pytest.raises(ConfigError, match=told):
        quick(shop, "a2c", values).train()


def test_an_event_without_a_value_may_still_come(quick, shop):
    def kpis(self, episode):
        return {}

    shop.kpis = kpis
    shop.step = lambda self, action: (self.events.report("order"), super(shop, self).step(action))[1]
    assert quick(shop, "a2c", {METRIC: "eval/event/order/mean_mean"}).train().best_score is None


def test_ranks_by_violation_first():
    state = RunState()
    for epoch, (score, violation, expected) in enumerate(
        [(5.0, 0.3, True), (9.0, 0.4, False), (4.0, 0.1, True), (math.nan, 0.0, False), (1.0, math.nan, False),
         (1.0, 0.0, True), (8.0, 0.1, False), (2.0, 0.0, True)], 1,
    ):  # fmt: skip
        assert state.rank(score, epoch, violation)[0] is expected
    assert state.rank(2.0, 9) == (False, True)
    assert (state.best_score, state.best_violation, state.improved_epoch, state.best_epoch) == (2.0, 0.0, 8, 9)


def test_sweeps_rank_by_the_score_of_their_runs():
    plan = {"algorithm": "ppo", "over": {"algorithm.lr": [1e-3, 1e-2]}}
    scored = {**plan, "overrides": {METRIC: "eval/late", "score.maximize": False}}
    assert (make_plan(scored).metric, make_plan(scored).minimize) == ("eval/late", True)
    assert make_plan({**plan, "config": {"score": {"metric": "eval/late"}}}).metric == "eval/late"
    assert make_plan({**scored, "metric": "eval/steps"}).minimize is False
    assert make_plan(plan).metric == "eval/return_mean"


def test_runs_are_compared_by_the_score_they_share(tmp_path):
    for number, late in enumerate((0.5, 0.2)):
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        config = {"env": {"name": "gymnasium", "id": "Kiosk-v0"}, "algorithm": {"name": "ppo", "lr": number + 1}}
        config |= {"seed": 1, "score": {"metric": "eval/late", "maximize": False}}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        from maze_core.plugins.config.record import write_record

        final = {"eval/kpi/late": late, "eval/return_mean": 1.0}
        write_record(folder, record_of(summary={"outcome": "finished", "final_evaluation": final}))
        (folder / "metrics.jsonl").write_text(json.dumps({"epoch": 1, "env_steps": 1, **final}) + "\n")
    told = json.loads(CliRunner().invoke(app, ["runs", "compare", str(tmp_path), "--json"]).stdout)
    assert [each["best"]["mean"] for each in told["groups"]] == [0.2, 0.5]
    assert told["groups"][0]["metric"] == "eval/late"
