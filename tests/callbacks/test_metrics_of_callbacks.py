"""Metrics that callbacks add reach every logger with their epoch, in any order; what comes too late is refused."""

import copy
import json
import math
import pickle
from typing import ClassVar

import numpy as np
import pytest
from maze_loggers.points import point
from maze_tensorboard.event_file import read_records

from maze_core import Plugin, hookimpl
from maze_core.base.errors import PluginError
from maze_core.run.report import EpochReport

PLAIN = {"callbacks.tensorboard": {"name": "tensorboard"}, "callbacks.console.metrics": ["mine/epoch"]}


class Mine(Plugin):
    """Adds metrics, a histogram and a figure to each epoch."""

    @hookimpl
    def on_metrics(self, run, metrics):
        run.figures["mine"] = np.zeros((2, 2), np.uint8)
        return {"mine/epoch": np.float32(run.epoch), "mine/seen": metrics["eval/return_mean"], "mine/nan": math.nan}


class Second(Plugin):
    """Sees what others have added."""

    @hookimpl
    def on_metrics(self, metrics):
        return {"second/seen": metrics.get("mine/epoch", -1)}


def reader():
    class Reader(Plugin):
        """Keeps all reports."""

        reports: ClassVar[list[EpochReport]] = []

        @hookimpl
        def on_epoch_end(self, run, epoch):
            self.reports.append(epoch)

    return Reader


def lines(run_dir):
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("order", ["first", "last"])
def test_every_logger_has_them_with_their_epoch(quick, capsys, monkeypatch, order):
    monkeypatch.setenv("COLUMNS", "120")  # a narrow table leaves columns out
    logs = reader()
    mine = {"mine": Mine, "second": Second}
    callbacks = {**mine, "logs": logs} if order == "first" else {"logs": logs, **mine}
    context = quick(algorithm="a2c", overrides=PLAIN, callbacks=callbacks, silent=False)
    context.train()
    assert [(each["epoch"], each["mine/epoch"], each["second/seen"]) for each in lines(context.run_dir)] == [
        (1, 1.0, 1.0), (2, 2.0, 2.0),
    ]  # fmt: skip
    assert all(each["mine/seen"] == each["eval/return_mean"] for each in lines(context.run_dir))
    assert [(each.epoch, each.metrics["mine/epoch"], set(each.figures)) for each in logs.reports] == [
        (1, 1.0, {"mine"}), (2, 2.0, {"mine"}),
    ]  # fmt: skip
    drawn = {
        (value.tag, record.step)
        for record in read_records(context.run_dir / "tensorboard")
        for value in record.values
        if value.tag.startswith("mine")
    }
    # Weights & Biases and MLflow send points.
    sent = [point(each).values["mine/seen"] for each in logs.reports]
    assert sent == [each["mine/seen"] for each in lines(context.run_dir)]
    steps = [each["env_steps"] for each in lines(context.run_dir)]
    assert {("mine/epoch", step) for step in steps} <= drawn
    assert "mine/epoch" in capsys.readouterr().out


def test_a_resumed_run_has_the_same(quick):
    whole = quick(algorithm="a2c", callbacks={"mine": Mine, "second": Second})
    whole.train()
    half = quick(algorithm="a2c", callbacks={"mine": Mine, "second": Second})
    half.train(1)
    half.close()
    quick(algorithm="a2c", callbacks={"mine": Mine, "second": Second}).resume(half.run_dir)

    def own(run_dir):
        return [{k: v for k, v in each.items() if k.startswith(("mine/", "second/"))} for each in lines(run_dir)]

    assert own(whole.run_dir) == own(half.run_dir)
    assert len(own(half.run_dir)) == 2


def test_the_score_may_be_one_of_them(quick):
    from maze_a2c.a2c import A2C

    class Scored(A2C):
        """Best is what a callback says."""

        def score(self, metrics):
            return -metrics["mine/epoch"]

    summary = quick(algorithm=Scored, overrides={"algorithm.num_envs": 2}, callbacks={"mine": Mine}).train()
    assert (summary.best_epoch, summary.best_score) == (1, -1.0)


def late(hook, argument, body):
    names = {"np": np}
    exec(f"def {hook}(self, run, {argument}):\n    {body}", names)
    return type("Late", (Plugin,), {hook: hookimpl(names[hook]), "__doc__": "Comes too late."})


LATE = [
    ("on_epoch_end", "epoch", "epoch.metrics['x'] = 1"),
    ("on_epoch_end", "epoch", "epoch.metrics.update(x=1)"),
    ("on_epoch_end", "epoch", "epoch.metrics.setdefault('x', 1)"),
    ("on_epoch_end", "epoch", "epoch.metrics.pop('eval/return_mean')"),
    ("on_epoch_end", "epoch", "epoch.figures['x'] = np.zeros((2, 2), np.uint8)"),
    ("on_epoch_end", "epoch", "run.figures['x'] = np.zeros((2, 2), np.uint8)"),
    ("on_epoch_end", "epoch", "run.histograms |= {'x': None}"),
    ("on_epoch_end", "epoch", "run.record({'x': 1})"),
    ("on_checkpoint", "path", "run.record({'x': 1})"),
    ("on_run_end", "summary", "run.record({'x': 1})"),
    ("on_run_end", "summary", "summary.final_evaluation['x'] = 1"),
    ("on_metrics", "metrics", "metrics['x'] = 1"),
    ("on_metrics", "metrics", "run.record({'x': 1})"),
    ("on_metrics", "metrics", "return {'x': 1, 'eval/return_mean': 1}"),
    ("on_metrics", "metrics", "return {'x': 1, 'y': 'text'}"),
    ("on_metrics", "metrics", "return {1: 1}"),
    ("on_metrics", "metrics", "return ['x']"),
]


def test_what_comes_too_late_is_refused_by_name(quick, capsys):
    """One run: a failing observer does not touch the others."""
    callbacks = {f"late{n}": late(*each) for n, each in enumerate(LATE)}
    context = quick(algorithm="a2c", callbacks={"second": Second, **callbacks})
    assert context.train().outcome == "finished"
    warnings = [line for line in capsys.readouterr().err.splitlines() if "no longer called" in line]
    for number, (hook, _, body) in enumerate(LATE):
        (warning,) = [line for line in warnings if f"'late{number}'" in line]
        assert f"hook {hook} of" in warning
        assert "PluginError" in warning
        assert "on_metrics" in warning, body
    assert len(warnings) == len(LATE)
    assert all("x" not in each and each["second/seen"] == -1 for each in lines(context.run_dir))


def test_what_belongs_to_no_epoch_is_refused_from_python_too(quick):
    context = quick(algorithm="a2c")
    context.run.record({"mine/early": 3.0})  # of the first epoch
    context.train(1)
    with pytest.raises(PluginError, match=r"'mine/late' is recorded where no epoch is under way.*\nNext: return it"):
        context.run.record({"mine/late": 1.0})
    context.train(1)
    assert [each.get("mine/early") for each in lines(context.run_dir)] == [3.0, None]


def test_reports_can_be_copied_into_plain_dicts(quick):
    logs = reader()
    quick(algorithm="a2c", callbacks={"logs": logs}).train(1)
    (report,) = logs.reports
    for copied in (
        copy.copy(report.metrics),
        copy.deepcopy(report.metrics),
        pickle.loads(pickle.dumps(report.metrics)),
    ):
        assert type(copied) is dict
        assert copied.keys() == report.metrics.keys()
    assert {**report.metrics, "x": 1}["x"] == (report.metrics | {"x": 1})["x"] == 1
