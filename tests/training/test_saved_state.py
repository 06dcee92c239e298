"""What somebody may have written into a checkpoint, with fitting checksums, is refused before it is used."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from maze_core import RunContext
from maze_core.base import saved_state as forms
from maze_core.base.errors import CheckpointError
from maze_core.base.seeding import random_state
from maze_core.run.saved import saved_run
from maze_core.run.saved.checkpoint import read_checkpoint, write_checkpoint

SMALL = {
    "algorithm.n_epochs": 1,
    "algorithm.epoch_length": 2,
    "evaluation.n_episodes": 1,
    "callbacks.tensorboard": None,
    "model.hidden": [4],
}
REPLAY = {
    "algorithm.num_envs": 2,
    "algorithm.initial_buffer_size": 20,
    "algorithm.replay_buffer_size": 40,
    "algorithm.batch_size": 4,
}
RUNS = {
    "ppo": {"algorithm.n_rollout_steps": 8, "algorithm.num_envs": 2, "wrappers": [{"name": "normalize_reward"}]},
    "dqn": {**REPLAY, "algorithm.prioritized": True},
    "impala": {"algorithm.n_rollout_steps": 8, "algorithm.num_actors": 2, "algorithm.envs_per_actor": 1},
    "es": {"algorithm.n_rollouts_per_update": 2},
}
COLLECTOR = "algorithm/collector"
MEMORY = f"{COLLECTOR}/env/memory/0/0"
CASES = [
    ("ppo", f"{MEMORY}/mean", None, "memory of NormalizedReward/mean should be a number, but is null"),
    ("ppo", f"{MEMORY}/var", -1.0, "memory of NormalizedReward/var should be a number from 0, but is -1.0"),
    ("ppo", f"{MEMORY}/running", [0.0], "memory of NormalizedReward/running should be numbers of float64"),
    ("ppo", "evaluation_memory/0/0/count", "x", "memory of NormalizedReward/count should be a number from 0"),
    ("ppo", "evaluation_memory", 3, "state.json/evaluation_memory should be a list, but is 3"),
    ("ppo", "largest_batch", None, "state.json/largest_batch should be an integer from 0, but is null"),
    ("ppo", "epoch", -1, "state.json/epoch should be an integer from 0, but is -1"),
    ("ppo", "env_steps", 2**63, "state.json/env_steps should be an integer from 0"),
    ("ppo", "best_score", "nan", "state.json/best_score should be a number, but is 'nan'"),
    ("ppo", "learner/optimizer/state/0/step", torch.tensor(-1.0), "state/0/step should be finite numbers from 0.0"),
    ("ppo", "learner/optimizer/param_groups/0/lr", True, "param_groups/0/lr should be a number from 0, but is true"),
    ("ppo", "torch_rng", torch.zeros(5056, dtype=torch.uint8), "torch_rng should be the state of a random generator"),
    ("ppo", f"{COLLECTOR}/env/actions/action", np.full((4, 2), 2), "env/actions/action should be numbers of int64"),
    ("ppo", f"{COLLECTOR}/begun", [2], "begun/0 should be an integer from 0 and below 2, but is 2"),
    ("dqn", f"{COLLECTOR}/due", [1, 0], "due/1 should be an integer from 1, but is 0"),
    ("dqn", f"{COLLECTOR}/order/state/inc", 0.5, "order should be the state of a random generator"),
    ("dqn", f"{COLLECTOR}/replay/segments/0/count", 10**12, "replay data are not as many rows as it says"),
    ("dqn", f"{COLLECTOR}/replay/steps", {}, "replay/steps should be an integer from 0, but is a mapping of 0"),
    ("dqn", f"{COLLECTOR}/exploration/rngs", [], "random numbers for 0 rows"),
    ("impala", "algorithm/under_way/0", 10**12, "requests are not those of its actors"),
    ("impala", "algorithm/actors/jobs/0/2", None, "jobs/0/2 should be a list of 2, but is null"),
    ("es", "algorithm/next_pair", 2**53, "next_pair should be an integer from 0"),
]
MISSING = {
    "ppo": [
        "updates", "largest_batch", "stop_reason", "evaluation_memory", "side_learners", "learner/configured",
        "learner/configured/optimizer", "learner/sums", f"{COLLECTOR}/begun",
        f"{COLLECTOR}/env/rewards", f"{COLLECTOR}/env/memory", f"{COLLECTOR}/env/episode",
    ],
    "dqn": [
        f"{COLLECTOR}/due", f"{COLLECTOR}/sink", f"{COLLECTOR}/open/selector", f"{COLLECTOR}/open/selector/end",
        f"{COLLECTOR}/replay/frames", f"{COLLECTOR}/replay/open_frames", f"{COLLECTOR}/replay/selector",
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run of each kind, made when it is first asked for."""
    made = {}

    def run(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name) / "run"
            parts = {"preset": "none", "run_dir": made[name], "overrides": SMALL | RUNS[name], "seed": 1}
            with RunContext("CartPole-v1", name, **parts) as context:
                context.train()
        return made[name]

    return run


def altered(folder, path, *value):
    """Rewrite the newest checkpoint with another value in a place, or without it."""
    last = folder / "checkpoints" / "last"
    saved = read_checkpoint(last)
    *keys, name = (int(key) if key.isdecimal() else key for key in path.split("/"))
    holder = saved.state
    for key in keys:
        holder = holder[key]
    assert name in holder if isinstance(holder, dict) else name < len(holder)
    if value:
        (holder[name],) = value
    else:
        del holder[name]
    write_checkpoint(last, replace(saved, state=saved.state))


@pytest.mark.parametrize(("name", "path", "value", "problem"), CASES)
def test_an_altered_value_is_refused_by_its_name(trained, tmp_path, name, path, value, problem):
    folder = shutil.copytree(trained(name), tmp_path / "run")
    altered(folder, path, value)
    with pytest.raises(Exception, match=problem) as caught:
        saved_run.reopen(folder, ["algorithm.n_epochs=2"])
    assert caught.value.exit_code == 2
    assert caught.value.__class__.__name__ in ("CheckpointError", "ConfigError")


@pytest.mark.parametrize(("name", "path"), [(name, path) for name, paths in MISSING.items() for path in paths])
def test_a_missing_value_is_refused_by_its_name(trained, tmp_path, name, path):
    folder = shutil.copytree(trained(name), tmp_path / "run")
    altered(folder, path)
    *_, key = path.split("/")
    with pytest.raises(CheckpointError, match=f"should be a mapping with '{key}', but lacks it") as caught:
        saved_run.reopen(folder, ["algorithm.n_epochs=2"])
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("path", "value"), [("epoch", None), ("evaluation_memory/0/0/mean", []), ("evaluation_memory", 1)]
)
def test_evaluations_refuse_it_too(trained, tmp_path, path, value):
    folder = shutil.copytree(trained("ppo"), tmp_path / "run")
    altered(folder, path, value)
    with pytest.raises(CheckpointError, match=path.rpartition("/")[2]), RunContext.open(folder, "last") as context:
        context.evaluate()


def test_a_large_count_takes_no_memory_and_no_time(trained, tmp_path):
    """What follows from it alone may be anything: here the run is at its end."""
    folder = shutil.copytree(trained("dqn"), tmp_path / "run")
    altered(folder, "algorithm/collector/due", [10**12, 3])
    altered(folder, "largest_batch", 10**12)
    assert saved_run.resume(folder, ["algorithm.n_epochs=2"]).outcome == "finished"


FORMS = {
    "count": (forms.Count(1, 3), [1, 2], [0, 3, 1.0, True, None, "1", float("nan"), []]),
    "number": (forms.Number(0, 1), [0, 0.5, 1], [-1, 2, True, None, "0", float("nan"), 10**400]),
    "any number": (forms.Number(finite=False), [0, float("nan"), float("-inf")], [None, "nan", False]),
    "text": (forms.Text(("a", "b")), ["a"], ["c", None, 1, ["a"]]),
    "flag": (True, [False], [0, None, "true"]),
    "int": (3, [4, -1, 0.5], [None, "3", [], True, float("inf"), 1e308 * 10]),
    "infinite": (float("inf"), [0.5, float("nan")], [None, "inf"]),
    "none": (forms.OrNone(forms.Count()), [None, 3], [-1, "x"]),
    "each": (forms.Each([forms.Count(), "x"]), [[], [[1, "y"]]], [None, {}, [1], [[1]], [[1, 2]]]),
    "entries": (forms.Entries(forms.Count(), forms.Count()), [{}, {1: 2}], [None, [], {"1": 2}, {1: -2}]),
    "empty": (forms.OrEmpty({"a": np.zeros(2)}), [{}, {"a": np.ones(2)}], [None, 3, {"b": 1}]),
    "left out": ({"a": forms.OrLeftOut(forms.Count()), "b": 1}, [{"b": 1}, {"a": 1, "b": 0, "c": 0}], [{"a": 1}]),
    "mapping": ({"a": {"b": 1}}, [{"a": {"b": 2}}], [None, [], {"a": None}, {}, {"b": 1}]),
    "list": ([1, "a"], [[2, "b"], (2, "b")], [[2], [2, 3], None, "ab", {0: 2, 1: "b"}]),
    "unknown": ({"a": {}, "b": [], "c": None}, [{"a": {"x": 1}, "b": [3], "c": "x"}], [{"a": [], "b": [], "c": 0}]),
    "array": (np.zeros((2, 3)), [np.ones((2, 3))], [np.ones((3, 2)), np.ones((2, 3), np.float32), [[0.0] * 3] * 2, None,
                                                    np.full((2, 3), np.nan), torch.zeros(2, 3).double()]),
    "no rows yet": (np.zeros((0, 3)), [np.ones((5, 3))], [np.ones((5, 2)), np.ones(3)]),
    "a tree of arrays": ({"a": np.zeros(1)}, [{"a": np.ones(1)}], [{"a": np.ones(1), "b": np.ones(1)}]),
    "tensor": (torch.zeros(2), [torch.ones(2)], [torch.ones(3), torch.ones(2).half(), np.ones(2, np.float32), 1.0]),
    "bounded": (forms.Array(np.dtype(np.int64), (None,), 0, 3), [np.array([0, 2])], [np.array([3]), np.array([-1])]),
    "generator": (forms.form_of(lambda: random_state(np.random.default_rng(1))),
                  [np.random.default_rng(2).bit_generator.state], [None, {}, np.random.MT19937().state]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    form, taken, refused = FORMS[name]
    for value in taken:
        forms.check_state(value, form, "x")
    for value in refused:
        with pytest.raises(forms.StateError, match=r"^(a key of )?x.* should be .+, but .+"):
            forms.check_state(value, form, "x")


def test_a_state_tells_its_form_only_where_it_is_asked_for():
    def state():
        return {"seen": forms.varies([1, 2], forms.Each(forms.Count())), "mean": 0.5}

    assert state() == {"seen": [1, 2], "mean": 0.5}
    forms.check_state({"seen": [1, 2, 3], "mean": 0.25}, forms.form_of(state))
    with pytest.raises(forms.StateError, match=r"^seen/1 should be an integer from 0, but is -1$"):
        forms.check_state({"seen": [1, -1], "mean": 0.25}, forms.form_of(state))
    assert state() == {"seen": [1, 2], "mean": 0.5}
