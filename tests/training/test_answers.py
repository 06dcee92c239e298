"""What an algorithm hands to Maze is refused where it is handed over, with the algorithm's name."""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from maze_core import RunContext
from maze_core.base.errors import CheckpointError, PluginError
from maze_core.collect.collector import put
from maze_core.learn import answers
from maze_core.run.episodes.statistics import EpochStatistics
from maze_core.run.progress import whole
from maze_core.run.saved.checkpoint import decode_state, encode_state, read_checkpoint, write_checkpoint
from maze_core.run.saved.saved_run import resume


def algorithm(**methods):
    there = {"modules": dict, **methods}
    return SimpleNamespace(config=SimpleNamespace(name="mine"), **there)


def answer(value):
    return lambda *asked: value


WRONG = [
    (answers.batches, "batches", None, "batches returned None instead of batches; does it lack a `yield`"),
    (answers.epoch_metrics, "epoch_metrics", None, "epoch_metrics returned None instead of a dict"),
    (answers.epoch_metrics, "epoch_metrics", {"a": "high"}, "epoch_metrics, 'a' is 'high', not a number"),
    (answers.epoch_metrics, "epoch_metrics", {"a": np.array(["1"])}, "epoch_metrics, 'a' is array"),
    (answers.epoch_metrics, "epoch_metrics", {"a": torch.ones(2)}, "epoch_metrics, 'a' is tensor"),
    (answers.epoch_metrics, "epoch_metrics", {3: 1.0}, "epoch_metrics has the name 3, which is no string"),
    (lambda mine: answers.score(mine, {}, None, first=False), "score", "high", "score is 'high', not a number"),
    (lambda mine: answers.lr_factor(mine, 0.0), "lr_factor", "x", "lr_factor is 'x', not a number"),
    (lambda mine: answers.lr_factor(mine, 0.0), "lr_factor", -1, "lr_factor returned -1.0, not a finite factor"),
    (lambda mine: answers.lr_factor(mine, 0.0), "lr_factor", float("nan"), "lr_factor returned nan"),
    (answers.modules, "modules", None, "modules returned None instead of a dict of torch.nn.Module"),
    (answers.modules, "modules", {"critic": 3}, "modules returned a dict instead of a dict of torch.nn.Module"),
    (lambda mine: answers.optimizer(mine, None), "build_optimizer", [], "build_optimizer returned a list instead"),
    (
        lambda mine: answers.optimizer(mine, None),
        "build_optimizer",
        lambda: torch.optim.LBFGS([torch.ones(1, requires_grad=True)]),  # imports torch's compiler
        "the optimizer LBFGS asks for losses in its step",
    ),
]


@pytest.mark.parametrize(("ask", "method", "value", "problem"), WRONG)
def test_wrong_answers(ask, method, value, problem):
    with pytest.raises(PluginError, match=r"^algorithm plugin 'mine': ") as caught:
        ask(algorithm(**{method: answer(value() if callable(value) else value)}))
    assert problem in str(caught.value)


def test_right_answers():
    found = answers.epoch_metrics(algorithm(epoch_metrics=answer({"a": np.float32(2), "b": torch.ones(1), "c": 3})))
    assert found == {"a": 2.0, "b": 1.0, "c": 3.0}
    assert {type(value) for value in found.values()} == {float}
    assert answers.lr_factor(algorithm(lr_factor=answer(None)), 0.5) is None
    sgd = torch.optim.SGD([torch.ones(1, requires_grad=True)])
    assert answers.optimizer(algorithm(build_optimizer=answer(sgd)), None) is sgd


def test_a_setup_that_does_not_take_the_run():
    async def late(run):
        pass

    def none():
        pass

    def fails(run):
        raise TypeError("theirs")

    with pytest.raises(PluginError, match="'mine': its none cannot be called with the run"):
        answers.set_up(algorithm(), none, None)
    with pytest.raises(PluginError, match="'mine': its late is asynchronous"):
        answers.set_up(algorithm(), late, None)
    with pytest.raises(TypeError, match="theirs"):
        answers.set_up(algorithm(), fails, None)


@pytest.mark.parametrize("value", [-1, 4.5, "4", None, np.float64(4)])
def test_counts_are_whole(value):
    with pytest.raises(PluginError, match="steps must be a whole number of at least 0, got "):
        whole(value, 0, "steps")
    assert type(whole(np.int64(4), 0, "steps")) is int


def test_recorded_values_are_numbers():
    statistics = EpochStatistics()
    with pytest.raises(PluginError, match="the recorded metric 'x' is 'text', not a number"):
        statistics.record({"x": "text"})
    statistics.record({"x": torch.tensor(2.0, requires_grad=True)})
    assert statistics.state()["values"] == {"x": [2.0]}


def test_what_is_kept_has_a_state_and_a_name_of_its_own():
    kept = {}
    first = np.random.default_rng(1)
    put(kept, "order", first)
    put(kept, "order", first)
    with pytest.raises(PluginError, match=r"keep\('order'\) is called twice"):
        put(kept, "order", np.random.default_rng(1))
    with pytest.raises(PluginError, match=r"keep\('count'\) takes what has state\(\) and load_state\(state\)"):
        put(kept, "count", 3)
    assert kept == {"order": first}


def test_keys_with_slashes_keep_their_own_arrays():
    state = {"a/b": np.ones(2), "a": {"b": torch.zeros(3)}, 3: np.full(1, 3), "3": np.full(1, 4), "a/b'": np.full(1, 5)}
    found = decode_state(*encode_state(state))
    assert found["a/b"].tolist() == [1, 1]
    assert found["a"]["b"].tolist() == [0, 0, 0]
    assert (found[3].item(), found["3"].item(), found["a/b'"].item()) == (3, 4, 5)


_ITSELF = {}
_ITSELF["again"] = _ITSELF


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({"f": print}, "state at /f has type builtin_function_or_method"),
        ({"f": {1}}, "state at /f has type set"),
        ({"f": [b"x"]}, "state at /f/0 has type bytes"),
        ({"f": np.array(["x"])}, "state at /f has type ndarray of <U1"),
        ({"f": np.array([{}])}, "state at /f has type ndarray of object"),
        ({"f": np.datetime64("2020")}, "state at /f has type datetime64"),
        ({"f": np.ones(1, np.longdouble)}, "state at /f has type ndarray of float128"),
        ({"f": torch.ones(2).to_sparse()}, "state at /f has type Tensor"),
        ({(1, 2): 3}, r"state at / has type dict with the key \(1, 2\)"),
        (_ITSELF, "nested too deeply for a checkpoint, or contains itself"),
    ],
)
def test_states_that_no_checkpoint_holds(state, problem):
    with pytest.raises(PluginError, match=problem):
        encode_state(state)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    overrides = {"algorithm.n_epochs": 1, "algorithm.epoch_length": 1, "algorithm.n_rollout_steps": 4}
    overrides |= {"algorithm.num_envs": 2, "evaluation.n_episodes": 1, "callbacks.tensorboard": None}
    folder = tmp_path_factory.mktemp("trained") / "run"
    with RunContext("CartPole-v1", "ppo", preset="none", run_dir=folder, overrides=overrides, seed=1) as context:
        context.train()
    return folder


def forged_part(saved, change):
    return {**saved, **{key: value(saved[key]) if callable(value) else value for key, value in change.items()}}


def forged_settings(**settings):
    return lambda saved: {**saved, "param_groups": [{**group, **settings} for group in saved["param_groups"]]}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"updates": None}, "should be an integer from 0"),
        ({"updates": {}}, "should be an integer from 0"),
        ({"improved_epoch": "x"}, "should be an integer from 0"),
        ({"learner": {"steps": "x"}}, "learner/steps should be an integer from 0"),
        ({"learner": {"sums": {"grad_norm": [1.0, None]}}}, "sums/grad_norm/1 should be an integer from 1"),
        ({"learner": {"sums": {"grad_norm": ["x", 1]}}}, "/0 should be a number, but is 'x'"),
        ({"learner": {"optimizer": forged_settings(betas="x")}}, "0/betas should be a list of 2, but is 'x'"),
        ({"learner": {"optimizer": forged_settings(betas=[0.9])}}, "0/betas should be a list of 2, but is a list of 1"),
        (
            {"learner": {"optimizer": forged_settings(lr=float("nan"))}},
            "0/lr should be a number from 0, but is nan",
        ),
        ({"statistics": {"values": {"train/x": ["x"]}}}, "/0 should be a number, but is 'x'"),
    ],
)
def test_forged_counters_and_settings_are_refused_at_a_resume(trained, tmp_path, change, problem):
    folder = shutil.copytree(trained, tmp_path / "run")
    saved = read_checkpoint(folder / "checkpoints" / "last")
    parts = ("learner", "statistics")
    forged = {key: forged_part(saved.state[key], value) if key in parts else value for key, value in change.items()}
    write_checkpoint(folder / "checkpoints" / "last", replace(saved, state={**saved.state, **forged}))
    with pytest.raises(CheckpointError, match=problem):
        resume(folder, overrides=["algorithm.n_epochs=2"])
