"""The Python API: when a run is built, and training it in parts."""

import pytest
from maze_devkit.envs import SeededWalk
from maze_devkit.probes import Workshop
from torch import nn

from maze_core import RunContext
from maze_core.base.errors import ConfigError, RunError


def test_nothing_is_built_before_it_is_needed(quick, tmp_path):
    calls = []

    def env():
        calls.append(1)
        return SeededWalk()

    context = quick(env, run_dir=tmp_path / "later")
    assert context.config.algorithm.name == "ppo"
    assert not calls
    assert not (tmp_path / "later").exists()
    assert isinstance(context.policy, nn.Module)
    assert (tmp_path / "later").is_dir()
    context.close()
    context.close()


def test_a_closed_run_says_that_it_is(quick):
    context = quick()
    context.train(1)
    context.close()
    for use in (context.evaluate, context.train):
        with pytest.raises(RunError, match="this run is closed"):
            use()


def test_training_in_parts_is_training(quick, whole_state, assert_same):
    """train(n) twice = train(2n), also under a schedule."""
    overrides = {"algorithm.n_epochs": 4, "algorithm.lr_schedule": "linear"}
    parts, whole = quick(overrides=overrides), quick(overrides=overrides)
    for _ in range(2):
        summary = parts.train(2)
    whole.train()
    assert (summary.epochs, summary.outcome) == (4, "finished")
    assert_same(whole_state(parts.run_dir), whole_state(whole.run_dir))


def test_without_an_end_train_takes_the_number_of_epochs(quick):
    context = quick(overrides={"algorithm.n_epochs": 0})
    assert [context.train(n).epochs for n in (1, 2)] == [1, 3]


@pytest.mark.parametrize(("patience", "epochs"), [(None, 17), (2, 3)])
def test_the_default_patience_does_not_end_the_epochs_asked_for(quick, monkeypatch, patience, epochs):
    """Patience that was asked for does; so does the default one without a number of epochs."""
    monkeypatch.setattr("maze_core.run.run.Run.evaluate", lambda run, number: {"eval/return_mean": 0.0})
    context = quick(
        overrides={
            "algorithm.n_epochs": 0,
            **({} if patience is None else {"callbacks.early_stopping.patience": patience}),
        }
    )
    assert context.train(5 if patience else 17).epochs == epochs
    if patience is None:
        assert context.train().outcome == "stopped"


def test_a_seed_repeats_a_run_and_without_one_runs_differ(quick, whole_state, assert_same):
    first, second = quick(Workshop, model="template"), quick(Workshop, model="template")
    first.train(), second.train()
    assert_same(whole_state(first.run_dir), whole_state(second.run_dir))
    assert quick(seed=None).run.seed != quick(seed=None).run.seed


def test_epochs_by_name(quick):
    assert RunContext(SeededWalk, epochs=3).config.algorithm.n_epochs == 3
    assert quick(epochs=4).config.algorithm.n_epochs == 2  # overrides win
    context = quick()
    assert context.train(1).epochs == 1
    assert context.train().epochs == 2


@pytest.mark.parametrize("arguments", [{"n_epochs": "3"}, {"n_epochs": -1}, {"n_epochs": 1.5}])
def test_a_number_of_epochs_that_is_none_is_refused(quick, arguments):
    with pytest.raises(ConfigError, match=rf"^{next(iter(arguments))}: must be a whole number, 0 or more, got"):
        quick().train(**arguments)


def test_epochs_beyond_the_steps_of_a_run_are_refused(quick):
    context = quick("CartPole-v1", steps=48)
    context.train()
    epoch = context.run.epoch
    with pytest.raises(ConfigError, match=r"steps: this run has taken all of its 48 environment steps\nNext: RunCont"):
        context.train(n_epochs=1)
    assert context.train().outcome == "finished"
    assert context.run.epoch == epoch


def test_a_context_says_what_it_is(quick):
    context = quick("CartPole-v1", "a2c")
    assert repr(context) == "<RunContext a2c on CartPole-v1>"
    context.train(1)
    assert repr(context) == f"<RunContext a2c on CartPole-v1, {context.run_dir}, epoch 1>"
