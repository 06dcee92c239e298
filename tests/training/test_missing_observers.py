"""A saved run is evaluated and acts without the callbacks that only observed its training; it is not resumed so."""

import json

import pytest

from maze_core import Plugin, RunContext, hookimpl
from maze_core.base.errors import ConfigError
from maze_core.plugins.config.record import read_record, write_record
from maze_core.run.episodes.saved_evaluation import evaluate_saved
from maze_core.run.saved import saved_run


class Watch(Plugin):
    @hookimpl
    def on_epoch_end(self, run, epoch): ...


class Extra(Plugin):
    """Trains beside the policy, and has no part in acting."""

    @hookimpl(wrapper=True)
    def compute_loss(self):
        return (yield)


class Shape(Plugin):
    """Changes the policy: without it the saved parameters mean something else."""

    @hookimpl(wrapper=True)
    def build_policy(self):
        return (yield)


@pytest.fixture
def trained(quick):
    def train(**callbacks):
        context = quick("CartPole-v1", callbacks=callbacks)
        context.train(1)
        context.close()
        return context

    return train


def test_callbacks_that_only_observe_are_left_out_with_one_line(trained, capsys):
    context = trained(watch=Watch, extra=Extra)
    capsys.readouterr()
    with RunContext.open(context.run_dir) as opened:
        assert "jsonl" in opened.config.callbacks
        assert not {"watch", "extra"} & opened.config.callbacks.keys()
        assert opened.evaluate()["eval/episodes"] == 1
    note = "note: not used, because they only observe and cannot be used here: "
    assert capsys.readouterr().err == f"{note}callbacks.watch (watch), callbacks.extra (extra)\n"
    assert evaluate_saved(context.run_dir, episodes=1).metrics["eval/episodes"] == 1


def test_a_run_is_not_resumed_without_them(trained):
    context = trained(watch=Watch)
    with pytest.raises(ConfigError, match=r"callbacks\.watch\.name: unknown callback 'watch'"):
        saved_run.reopen(context.run_dir, ["algorithm.n_epochs=3"])


def test_a_callback_with_a_part_in_the_policy_is_needed(trained):
    context = trained(watch=Watch, shape=Shape)
    with pytest.raises(ConfigError, match=r"^callbacks\.shape\.name: unknown callback 'shape'"):
        RunContext.open(context.run_dir)


def test_a_callback_that_the_caller_sets_is_needed(trained):
    context = trained(watch=Watch)
    with pytest.raises(ConfigError, match=r"callbacks\.watch"):
        RunContext.open(context.run_dir, overrides={"callbacks.watch": {"name": "watch"}})


@pytest.mark.parametrize("noted", [None, [], {"watch": "other"}, {"watch": 3}])
def test_a_run_that_does_not_say_what_only_observed_needs_all(trained, noted):
    context = trained(watch=Watch)
    record = read_record(context.run_dir)
    assert record["observers"]["watch"] == "watch"
    if noted is None:
        del record["observers"]
    else:
        record["observers"] = noted
    record.pop("checksum", None)
    write_record(context.run_dir, json.loads(json.dumps(record)))
    with pytest.raises(ConfigError, match="unknown callback 'watch'"):
        RunContext.open(context.run_dir)


def test_an_override_of_a_resumed_run_is_noted(trained):
    context = trained(watch=Watch)
    with RunContext.reopen(context.run_dir, {"callbacks.watch": {"name": "jsonl"}, "algorithm.n_epochs": 2}) as again:
        again.train()
    assert read_record(context.run_dir)["observers"]["watch"] == "jsonl"
    with RunContext.reopen(context.run_dir, {"callbacks.watch": None, "algorithm.n_epochs": 3}):
        assert "watch" not in read_record(context.run_dir)["observers"]
