"""Heuristics of a project: policy classes that the user names as `module:Class`, and what they return."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from typer.testing import CliRunner

from maze_core import RunContext
from maze_core.base.errors import ConfigError, RunError
from maze_core.base.local_modules import allow_local_modules, is_current_folder
from maze_core.cli.main import app
from maze_core.collect.policies.action_check import ActionCheck
from maze_core.collect.policies.said_classes import said_classes
from maze_core.plugins import discovery

RULES = """
import numpy as np
from maze_core import ActingPolicy, PluginConfig
class Settings(PluginConfig):
    foresight: float = 0.25
class Balance(ActingPolicy):
    Config = Settings
    def act(self, obs, rngs):
        _, _, angle, spin = obs["observation"].T
        return {"action": angle + self.config.foresight * spin > 0}
class Idle(ActingPolicy): pass
class Old(ActingPolicy):
    def act(self, obs): return {"action": obs["observation"][:, 0] > 0}
class Bare(Balance):
    def __init__(self): pass
class Third(ActingPolicy):
    def act(self, obs, rngs): return {"action": np.full(len(rngs), 2)}
class Plain: pass
"""
SMALL = ["--preset", "none", "-q", "--seed", "1", "--epochs", "1", "--epoch-length", "4"]
SMALL += ["--set", "evaluation.n_episodes=2", "--set", "callbacks.tensorboard=null"]
SAC = ["--set", "algorithm.initial_buffer_size=20", "--set", "algorithm.replay_buffer_size=40"]


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A folder with a module of heuristics, which nothing has imported."""
    (tmp_path / "rules.py").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("rules", None)


def maze(*arguments, code=0):
    sys.modules.pop("rules", None)
    sys.path[:] = [entry for entry in sys.path if not is_current_folder(entry)]
    sys.meta_path[:] = [each for each in sys.meta_path if type(each).__module__ != "maze_core.base.local_modules"]
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done


def returned(*arguments):
    return json.loads(maze(*arguments, "--json").stdout)


def test_rollout_eval_and_comparisons_take_a_class_with_parameters(whole_state):
    env = ["--env", "CartPole-v1", "-n", "4", "--seed", "1"]
    assert returned("rollout", "--policy", "rules:Balance", *env)["return_mean"] == 500
    hasty = returned("rollout", "--policy", "rules:Balance", *env, "--set", "policy.foresight=0")
    assert hasty["return_mean"] < 100
    maze("train", "ppo", "--env", "CartPole-v1", *SMALL, "--n-rollout-steps", "8", "--run-dir", "runs/first")
    found = returned("eval", "runs/first", "--policy", "rules:Balance", "--set", "policy.foresight=0.2")
    assert (found["eval/return_mean"], found["policy"]) == (500, "rules:Balance")
    (score,) = returned("runs", "compare", "runs", "--policy", "rules:Balance")["policies"]
    assert (score["value"], score["episodes"], score["env"]) == (500, 2, "CartPole-v1")
    line = maze("runs", "compare", "runs", "--policy", "random", "--policy", "rules:Balance").stdout.splitlines()[-1]
    assert line == "policy rules:Balance on CartPole-v1: 500 over 2 episodes; not better: A"
    assert "policy rules:Balance on CartPole-v1: 500" in maze("runs", "list", "--policy", "rules:Balance").stdout
    wrong = maze("runs", "compare", "runs", "--policy", "random", "--metric", "loss/policy", code=2)
    assert "--policy: a policy only has metrics of evaluations" in wrong.stderr


def test_an_algorithm_begins_with_a_class_and_goes_on_once_it_is_repeated():
    first = "algorithm.initial_sampling_policy=rules:Balance"
    maze("train", "sac", "--env", "CartPole-v1", *SMALL, *SAC, "--set", first, "--run-dir", "run")
    maze("eval", "run", "-n", "1")
    assert "rules" not in sys.modules
    more = ["resume", "run", "-q", "--set", "algorithm.n_epochs=2"]
    refused = maze(*more, code=2)
    assert "unknown policy 'rules:Balance'" in refused.stderr
    assert "name it again on the command line, as in --set PATH='rules:Balance'" in refused.stderr
    assert "rules" not in sys.modules
    maze(*more, "--set", first)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rules:Missing", "the module 'rules' has no 'Missing'\nDid you mean rules:Balance or rules:Idle"),
        ("rules:Plain", "rules:Plain is not a class that derives from maze_core.ActingPolicy"),
        ("rules:np", "is not a class that derives"),
        ("rules:Idle", "has no method act"),
        ("rules:Old", "Old.act (rules.py, line 13) must take (obs, rngs)"),
        ("rules:Bare", "Bare (rules.py, line 14) must take (config)"),
        ("nowhere:Best", "the module 'nowhere' cannot be imported"),
        ("os:system", "is a module of Python itself"),
        ("rules:", "unknown policy"),
        ("tqdm:Best", "An installed package tqdm was imported. Your module tqdm in this folder needs another name"),
    ],
)
def test_a_wrong_name_is_one_clear_error(name, message):
    Path("tqdm.py").touch()
    done = maze("rollout", "--policy", name, "--env", "CartPole-v1", code=2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_actions_that_are_not_in_the_space_end_the_rollout():
    done = maze("rollout", "--policy", "rules:Third", "--env", "CartPole-v1", code=1)
    assert done.stderr.endswith(
        "rules:Third returned for 'action' 2, which Discrete(2) has not; its values are counted from 0\n"
    )


SPACE = spaces.Dict(
    {
        "tool": spaces.Discrete(3, start=4),
        "pair": spaces.MultiDiscrete([2, 5]),
        "bits": spaces.MultiBinary(2),
        "push": spaces.Tuple([spaces.Box(-1, 1, (1,)), spaces.Box(0, 9, (), np.int64)]),
    }
)
GOOD = {
    "tool": np.array([0, 2]),
    "pair": [[0, 4], [1, 0]],
    "bits": np.array([[True, False], [False, True]]),
    "push/0": np.array([[-7.0], [0.5]]),
    "push/1": np.array([3, 11]),
}


def test_actions_come_in_storage_dtype_and_within_bounds():
    found = ActionCheck(SPACE, "it")(GOOD, 2)
    assert {key: leaf.dtype.name for key, leaf in found.items()} == {
        "tool": "int64", "pair": "int64", "bits": "int8", "push/0": "float32", "push/1": "float32"
    }  # fmt: skip
    assert found["push/0"].tolist() == [[-1], [0.5]]
    assert found["push/1"].tolist() == [3, 9]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tool": np.array([0, 3])}, "for 'tool' 3, which"),
        ({"tool": np.array([-1, 0])}, "for 'tool' -1, which"),
        ({"tool": np.array([0.0, 1.0])}, "for 'tool' float64 values such as 0.0"),
        ({"tool": 1}, r"for 'tool' an array of shape \[\], and must return \[2\]"),
        ({"pair": [[0, 4], [2, 0]]}, "for 'pair' 2, which"),
        ({"pair": [[0, 4], [1]]}, "for 'pair' "),
        ({"bits": np.full((2, 2), 2)}, "for 'bits' 2, which"),
        ({"push/0": np.array([[np.nan], [0]])}, "for 'push/0' a number that is not finite"),
        ({"push/0": np.array([["a"], ["b"]])}, "for 'push/0' <U1 values such as 'a'"),
        ({"more": 1}, "the keys 'tool', .*, 'more', and must return a dict of arrays with 'bits', 'pair'"),
    ],
)
def test_anything_else_is_refused(change, message):
    with pytest.raises(RunError, match=f"it returned {message}"):
        ActionCheck(SPACE, "it")({**GOOD, **change}, 2)


def test_a_program_evaluates_a_class_in_the_episodes_of_its_run():
    sys.path.insert(0, ".")
    import rules

    with RunContext("CartPole-v1", "ppo", overrides={"evaluation.n_episodes": 2}, seed=1, silent=True) as context:
        assert context.evaluate(policy=rules.Balance)["eval/return_mean"] == 500
        hasty = {"name": "rules:Balance", "foresight": 0.0}
        assert context.evaluate(policy=hasty)["eval/return_mean"] < 100
        with pytest.raises(ConfigError, match="unknown policy 'nobody'"):
            context.evaluate(policy="nobody")


def test_only_what_was_said_is_found():
    allow_local_modules()
    load = said_classes({"a": ["rules:Balance"]}, ["x={name: 'rules:Third'}"])
    assert load("policy", "rules:Balance").__name__ == "Balance"
    assert load("policy", "rules:Third").__name__ == "Third"
    with pytest.raises(ConfigError, match="unknown policy"):
        load("policy", "rules:Bare")
    assert said_classes("CartPole-v1") is discovery.load
