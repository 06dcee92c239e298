"""What a file says of its policy: checkpoint, score, checksums, parameters, and what actions mean."""

import functools
import hashlib
import json

import gymnasium
import numpy as np
import onnx
import pytest
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv
from maze_export.export import export_policy
from maze_export.interface import METADATA
from maze_export.meanings import declared_actions
from typer.testing import CliRunner

from maze_core import ConfigError, RunContext
from maze_core.cli.main import app

SMALL = {"algorithm.n_rollout_steps": 8, "algorithm.num_envs": 2, "algorithm.epoch_length": 1}
SMALL |= {"evaluation.n_episodes": 2, "model.hidden": [4], "env.kwargs.sutton_barto_reward": True}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "first"
    with RunContext("CartPole-v1", "ppo", overrides=SMALL, seed=1, epochs=2, run_dir=folder, silent=True) as context:
        context.train()
    return folder


def exported(run, out, *options):
    done = CliRunner().invoke(app, ["export", str(run), "--out", str(out), "--json", *options])
    assert done.exit_code == 0, done.output
    model = onnx.load(out)
    (about,) = [json.loads(each.value) for each in model.metadata_props if each.key == METADATA]
    return json.loads(done.stdout), model, about


@pytest.mark.parametrize("checkpoint", ["best", "last"])
def test_a_file_says_which_checkpoint_it_is_and_what_that_reached(run, tmp_path, checkpoint):
    printed, model, about = exported(run, tmp_path / "a.onnx", "--checkpoint", checkpoint)
    origin, state = about["run"], json.loads((run / "checkpoints" / checkpoint / "state.json").read_text())
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (row,) = [each for each in rows if each["epoch"] == state["epoch"]]
    assert (origin["checkpoint"], origin["epoch"]) == (checkpoint, state["epoch"])
    assert origin["score"] == {name: row[f"eval/{name}"] for name in ("return_mean", "return_std", "episodes")}
    for name, folder in {"model.safetensors": run / "checkpoints" / checkpoint, "config.yaml": run}.items():
        assert origin["sha256"][name] == hashlib.sha256((folder / name).read_bytes()).hexdigest()
    assert printed["sha256"] == hashlib.sha256((tmp_path / "a.onnx").read_bytes()).hexdigest()
    assert about["env"]["kwargs"] == {"sutton_barto_reward": True}
    assert about["exported"].endswith("+00:00")
    assert f"Policy of ppo for CartPole-v1, checkpoint {checkpoint}, after epoch {state['epoch']}" in model.doc_string
    assert f"mean return {row['eval/return_mean']:.6g} of 2 episodes" in about["description"]
    assert (model.producer_name, model.model_version) == ("maze-export", state["epoch"])
    assert str(run) not in (tmp_path / "a.onnx").read_bytes().decode("latin-1")


def test_where_a_wrapper_writes_stays_private(tmp_path):
    wrappers = [{"name": "record", "folder": str(tmp_path / "secret")}]
    with RunContext("CartPole-v1", "ppo", wrappers=wrappers, seed=1, run_dir=tmp_path / "run", silent=True) as context:
        file = export_policy(context.run, tmp_path / "a.onnx").file
    (about,) = [json.loads(each.value) for each in onnx.load(file).metadata_props if each.key == METADATA]
    assert about["wrappers"][0]["name"] == "record"
    assert b"secret" not in file.read_bytes()


class Declared(SpacesEnv):
    def __init__(self, action, declared):
        super().__init__(spaces.Box(-1, 1, (2,)), action)
        self.metadata = {**type(self).metadata, **declared}


class Named(SpacesEnv):
    def __init__(self, known=2):
        self.known = known
        super().__init__(spaces.Box(-1, 1, (2,)), spaces.Discrete(2))

    def get_action_meanings(self):
        return ["NOOP", "FIRE", "UP"][: self.known]


BOTH = spaces.Dict({"tool": spaces.Discrete(3, start=2), "push": spaces.Box(-1, 1, (2, 1))})


def actions_of(env, tmp_path, wrappers=()):
    from maze_export.graph import ExportedPolicy, actor

    run_dir = tmp_path / "run"
    with RunContext(env, "ppo", wrappers=wrappers, seed=1, run_dir=run_dir, silent=True) as context:
        return declared_actions(context.run, ExportedPolicy(actor(context.policy), stochastic=False).interface)


def test_meanings_and_units_are_those_of_each_output(tmp_path):
    declared = {"action_meanings": {"tool": ["saw", "drill", "file"]}, "action_units": {"push": ["N", "N"]}}
    assert actions_of(functools.partial(Declared, BOTH, declared), tmp_path) == {
        "action/tool": {"meanings": ["saw", "drill", "file"]},
        "action/push": {"units": ["N", "N"]},
    }
    assert actions_of(Named, tmp_path / "b") == {"action": {"meanings": ["NOOP", "FIRE"]}}
    assert actions_of(functools.partial(Named, 3), tmp_path / "c") == {}


class Halved(gymnasium.ActionWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.action_space = spaces.Discrete(2)

    def action(self, action):
        return np.array([float(action)], np.float32)


def test_a_wrapper_that_makes_other_actions_hides_what_is_below(tmp_path):
    env = functools.partial(Declared, spaces.Box(-1, 1, (1,)), {"action_units": "N"})
    assert actions_of(env, tmp_path) == {"action": {"units": "N"}}
    assert actions_of(env, tmp_path / "b", [Halved]) == {}


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"action_meanings": ["saw"]}, "has 1 texts for 'push', which needs 2"),
        ({"action_units": {"push": [1, 2]}}, "must hold texts"),
        ({"action_units": 3}, "must hold texts"),
    ],
)
def test_a_wrong_declaration_is_one_clear_error(tmp_path, declared, message):
    with pytest.raises(ConfigError, match=f"env: 'action_.*' in the environment's metadata {message}"):
        actions_of(functools.partial(Declared, BOTH, declared), tmp_path)
